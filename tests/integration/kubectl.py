"""kubectl as a process: the one that `make controlplane` built, or the installed one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kubewright.testing import Cluster
from kubewright_controlplane.kubelet.images import Image


def find_kubectl() -> str | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kubewright/controlplane/current/bin")
    return shutil.which("kubectl", path=assets or str(cache)) or shutil.which("kubectl")


KUBECTL = find_kubectl()
OVER_SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
"""Variables that make kubectl use SPDY, like versions before 1.31."""
TIMEOUT = 180.0
"""A timeout in seconds, longer than any `--timeout` of the tests."""


class Kubectl:
    """kubectl in one namespace."""

    def __init__(self, kubeconfig: Path, namespace: str, *, env: Mapping[str, str] | None = None) -> None:
        self._kubeconfig = kubeconfig
        self._env = env or {}
        self.namespace = namespace

    async def start(self, *arguments: str, terminal: int = asyncio.subprocess.PIPE) -> asyncio.subprocess.Process:
        """Start kubectl as a process, with pipes or with the file descriptor of a terminal."""
        return await asyncio.create_subprocess_exec(
            str(KUBECTL),
            f"--kubeconfig={self._kubeconfig}",
            f"--namespace={self.namespace}",
            *arguments,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={
                **os.environ,
                "KUBECACHEDIR": str(self._kubeconfig.parent / "cache"),  # its cache of kinds, which is valid for hours
                "KUBE_EDITOR": "sed -i s/nginx:1/nginx:2/",
                **self._env,
            },
        )

    async def __call__(self, *arguments: str, given: str = "", fails: bool = False) -> str:
        """Run kubectl. Returns its output, or with `fails` its error output."""
        process = await self.start(*arguments)
        out, err = await asyncio.wait_for(process.communicate(given.encode()), TIMEOUT)
        assert (process.returncode != 0) == fails, f"{arguments}: {process.returncode}\n{out.decode()}\n{err.decode()}"
        return (err if fails else out).decode()

    async def json(self, *arguments: str) -> Any:
        return json.loads(await self(*arguments, "-o", "json"))


class Terminal:
    """A terminal and the process in it."""

    def __init__(self, process: asyncio.subprocess.Process, ours: int) -> None:
        self._process = process
        self._ours = ours

    def types(self, text: str) -> None:
        os.write(self._ours, text.encode())

    async def shows(self, text: str) -> None:
        """Wait until the terminal shows `text`."""
        await asyncio.to_thread(self._read, text.encode())

    def _read(self, text: bytes) -> None:
        said = b""
        while text not in said:
            said += os.read(self._ours, 1024)

    async def ended(self) -> int:
        """Wait for the exit. Returns the status."""
        return await self._process.wait()


@asynccontextmanager
async def at_terminal(kubectl: Kubectl, *arguments: str) -> AsyncGenerator[Terminal]:
    """Run kubectl at a terminal for the duration of the block."""
    ours, theirs = os.openpty()
    process = await kubectl.start(*arguments, terminal=theirs)
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        os.close(ours)


@asynccontextmanager
async def kubectl_with_processes(
    cluster: Cluster,
    namespace: str,
    target: str,
    images: Mapping[str, Image],
    *,
    env: Mapping[str, str] | None = None,
) -> AsyncGenerator[Kubectl]:
    """Yield kubectl for a cluster in which new Pods of these images run as processes. Skips if that is impossible."""
    if target == "kubeconfig":
        pytest.skip("this cluster runs real images")
    if KUBECTL is None:
        pytest.skip("kubectl was not found; `make controlplane` builds it")
    async with cluster.images(images):
        yield Kubectl(cluster.kubeconfig(), namespace, env=env)
