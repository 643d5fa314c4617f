"""Our controllers on somebody else's API server: to tell whose fault a fault is.

The cases of this folder that are about controllers run again, by a pytest of their own, against a real API server that
has no controllers but ours.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from kubewright.client._transport import HTTPTransport
from kubewright_controlplane.plane import ControlPlane, ControlPlaneOptions
from kubewright_controlplane.real import RealControlPlane

pytestmark = pytest.mark.timeout(1800)
CASES = ("test_controllers.py", "test_controllers_workloads.py")


async def test_our_controllers_do_the_same_on_a_real_api_server(kubewright_target: str) -> None:
    if kubewright_target != "real":
        pytest.skip("needs the real API server: --kubewright-target=real")
    async with RealControlPlane(controllers=False) as real:
        assert isinstance(real.config.ca, bytes)
        options = ControlPlaneOptions(ca=real.config.ca.decode())
        plane = ControlPlane(HTTPTransport(real.config), options)
        running = asyncio.create_task(plane.run())
        await plane.wait_ready()
        status, output = await _run_cases(real.kubeconfig)
        plane.stop()
        await running
    assert status == 0, output


async def _run_cases(kubeconfig: Path) -> tuple[int | None, str]:
    folder = Path(__file__).parent
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--kubewright-target=kubeconfig"),
        *(str(folder / case) for case in CASES),
        cwd=folder.parent.parent,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode, output.decode()
