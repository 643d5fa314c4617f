"""The WebServer tutorial as one script: `tests/tutorial/webserver.sh`, from `init` in an empty folder."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from integration.kubectl import KUBECTL
from kubewright.testing import Cluster

SCRIPT = Path(__file__).parents[1] / "tutorial/webserver.sh"

pytestmark = [
    pytest.mark.skipif(KUBECTL is None, reason="needs kubectl: `make controlplane` builds it"),
    pytest.mark.xdist_group("node port 30010"),
    pytest.mark.timeout(600),
]


async def follow(folder: Path, *arguments: str, kubeconfig: Path | None) -> str:
    """Run the tutorial in a folder. Gives what was said; it has to succeed."""
    project = folder / "webserver-operator"
    project.mkdir()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "PYTHON", "MAKE", "TARGET"))
    }
    binaries = Path(sys.executable).parent
    environment["PATH"] = os.pathsep.join([str(binaries), str(Path(str(KUBECTL)).parent), environment["PATH"]])
    environment["VIRTUAL_ENV"] = str(binaries.parent)
    if kubeconfig:
        environment["KUBECONFIG"] = str(kubeconfig)
    process = await asyncio.create_subprocess_exec(
        SCRIPT,
        *arguments,
        cwd=project,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode()


async def test_it_leads_from_an_empty_folder_to_a_deployed_operator_and_back(tmp_path: Path) -> None:
    said = await follow(tmp_path, kubeconfig=None)
    assert "webserver-operator runs in namespace webserver-operator-system" in said
    assert "Nothing is wrong." in said
    assert "namespace/webserver-operator-system deleted" in said


async def test_the_operator_works_on_this_machine_against_any_control_plane(cluster: Cluster, tmp_path: Path) -> None:
    said = await follow(tmp_path, "local", kubeconfig=cluster.kubeconfig())
    assert "webserver-sample   3          nginx:1.23.1   True" in said
