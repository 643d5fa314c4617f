"""Go's own libraries against the control plane: client-go's typed clients, informers, election and events, and a
controller-runtime manager. The program is in `go/`; it is built here, and left out where there is no Go."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kubewright.testing import Cluster

SOURCE = Path(__file__).with_name("go")
BUILD_SECONDS = 600
pytestmark = [
    pytest.mark.skipif(shutil.which("go") is None, reason="Go was not found"),
    pytest.mark.timeout(BUILD_SECONDS + 300),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built. Skips where its modules cannot be had."""
    path = tmp_path_factory.mktemp("clients") / "clients"
    fetched = subprocess.run(("go", "mod", "download"), cwd=SOURCE, capture_output=True, text=True)
    if fetched.returncode != 0:
        pytest.skip(f"the Go modules cannot be had: {fetched.stderr.strip()}")
    subprocess.run(("go", "build", "-o", path, "."), cwd=SOURCE, check=True, timeout=BUILD_SECONDS)
    return path


@pytest.mark.parametrize("scenario", ["typed", "apply", "informers", "election", "events", "manager"])
async def test_a_scenario_of_a_go_program_works(program: Path, cluster: Cluster, namespace: str, scenario: str) -> None:
    process = await asyncio.create_subprocess_exec(
        program,
        scenario,
        namespace,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig())},
    )
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()
