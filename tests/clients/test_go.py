"""Go's own libraries against the control plane: client-go's typed clients, informers, election and events, a
controller-runtime manager, and its webhooks, installed by envtest or behind a Service; and envtest on the programs of
`kubewright-controlplane envtest`. The program is in `go/`. The tests build it, and are skipped without Go."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from clients.goprograms import BUILD_SECONDS, go_program
from integration.command import CONTROL_PLANE, environment, up
from integration.envtest import assets
from kubewright.testing import Cluster
from kubewright_controlplane.apiserver.pki import CertificateAuthority

SOURCE = Path(__file__).with_name("go")
pytestmark = [
    pytest.mark.skipif(shutil.which("go") is None, reason="Go was not found"),
    pytest.mark.timeout(2 * BUILD_SECONDS + 300),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return go_program(tmp_path_factory, SOURCE)


async def run(program: Path, cluster: Cluster, namespace: str, scenario: str, **environment: str) -> None:
    process = await asyncio.create_subprocess_exec(
        program,
        scenario,
        namespace,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig()), **environment},
    )
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()


@pytest.mark.parametrize("scenario", ["typed", "apply", "informers", "election", "events", "manager"])
async def test_a_scenario_of_a_go_program_works(program: Path, cluster: Cluster, namespace: str, scenario: str) -> None:
    await run(program, cluster, namespace, scenario)


async def test_envtest_installs_the_webhooks_of_a_go_manager(program: Path, cluster: Cluster, namespace: str) -> None:
    await run(program, cluster, namespace, "webhooks", USE_EXISTING_CLUSTER="true")


async def test_envtest_starts_the_programs_of_the_command(program: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        program,
        "envtest",
        "default",
        stderr=asyncio.subprocess.PIPE,
        env={**environment(None), "KUBEBUILDER_ASSETS": str(assets())},
    )
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()


async def test_the_webhooks_of_a_go_manager_are_called_through_a_service(
    program: Path, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    authority = CertificateAuthority.create()
    pair = authority.issue_server(["hooks.default.svc"])
    for name, content in (("ca.crt", authority.certificate), ("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (tmp_path / name).write_bytes(content)
    await run(program, cluster, namespace, "services", CERT_DIR=str(tmp_path))


async def test_a_go_manager_runs_against_the_command(program: Path, tmp_path: Path) -> None:
    with up(tmp_path, command=(CONTROL_PLANE,)) as started:
        process = await asyncio.create_subprocess_exec(
            program, "manager", "default", stderr=asyncio.subprocess.PIPE, env=environment(started.kubeconfig)
        )
        _, said = await process.communicate()
        assert process.returncode == 0, said.decode()
