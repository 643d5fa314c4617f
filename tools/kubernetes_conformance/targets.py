"""The control planes that the suite runs against, each in processes of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from tools.controlplane.build import build_conformance, default_cache
from tools.kubernetes_conformance.images import write_images

from kubewright_controlplane.real import RealControlPlane

Target: TypeAlias = Callable[[Path], AbstractAsyncContextManager[Path]]
"""Runs a control plane, with its log in a folder, and yields the path of a kubeconfig."""

_READY_WITHIN: Final = 60


@asynccontextmanager
async def _embedded(logs: Path, *options: str) -> AsyncGenerator[Path]:
    with TemporaryDirectory(prefix="kubewright-conformance-") as folder, (logs / "controlplane.log").open("wb") as log:
        kubeconfig = Path(folder) / "kubeconfig"
        command = Path(sys.executable).with_name("kubewright-controlplane")
        arguments = ("--kubeconfig", str(kubeconfig), "--log-level", "warning", *options)
        server = await asyncio.create_subprocess_exec(
            command, *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log
        )
        assert server.stdout is not None
        try:
            if not await asyncio.wait_for(server.stdout.readline(), _READY_WITHIN):
                raise RuntimeError(f"the control plane did not start: see {logs / 'controlplane.log'}")
            yield kubeconfig
        finally:
            if server.returncode is None:
                server.terminate()
            await server.communicate()


@asynccontextmanager
async def _processes(logs: Path) -> AsyncGenerator[Path]:
    binaries = build_conformance(default_cache()) / "bin"
    with TemporaryDirectory(prefix="kubewright-conformance-") as folder:
        options = ("--images", str(write_images(binaries, Path(folder))), "--allow-host-path", "/etc/hosts")
        async with _embedded(logs, *options) as kubeconfig:
            yield kubeconfig


@asynccontextmanager
async def _real(logs: Path) -> AsyncGenerator[Path]:
    async with RealControlPlane() as control_plane:
        yield control_plane.kubeconfig


TARGETS: Final[dict[str, Target]] = {"embedded": _embedded, "processes": _processes, "real": _real}
