"""The embedded controllers on a real API server, to find out whether a failure is that of the server or the
controllers.

The controller cases of this folder run again, in a pytest of their own, against a real API server that runs no other
controllers.
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
CASES = (
    "test_controllers.py",
    "test_controllers_autoscaling.py",
    "test_controllers_endpoints.py",
    "test_controllers_jobs.py",
    "test_controllers_nodes.py",
    "test_controllers_scheduling.py",
    "test_controllers_statefulsets.py",
    "test_controllers_workloads.py",
)


async def test_the_embedded_controllers_work_on_a_real_api_server(kubewright_target: str) -> None:
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
