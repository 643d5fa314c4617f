"""The API server of an operator is killed and restarted."""

from __future__ import annotations

import logging
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from integration.command import up
from integration.gizmo_operator import Gizmo, reconcile
from kubewright import Client, Config
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.models import codec, custom_resource_definition
from kubewright.testing import Cluster, eventually
from kubewright_controlplane.ports import free_port
from kubewright_controlplane.real import RealControlPlane
from robustness.gizmos import Gizmos, operated
from robustness.processes import operator as operator_process

DEFINITION = codec.from_dict(CustomResourceDefinition, custom_resource_definition(Gizmo))


async def test_an_operator_continues_after_its_api_server_is_killed_and_restarted(tmp_path: Path) -> None:
    arguments = ("--data", tmp_path / "data", "--port", free_port())
    kubeconfig = tmp_path / "operator.kubeconfig"
    with ExitStack() as stack:
        server = stack.enter_context(up(tmp_path, *arguments))
        server.kubeconfig.rename(kubeconfig)  # its certificate is also valid for the restarted servers
        client = Client(Config.from_kubeconfig(kubeconfig))
        await client.apply(DEFINITION)
        await eventually(client.list, Gizmo)
        gizmos = Gizmos(client, "default")
        log = tmp_path / "log"
        async with operator_process("integration.gizmo_operator", kubeconfig, log, ["--leader-elect=false"]) as process:
            for _ in range(3):
                await gizmos.populate()
                await gizmos.shake()
                server.end(signal.SIGKILL)
                server = stack.enter_context(up(tmp_path, *arguments))
                await gizmos.take_stock()
                await gizmos.converge()
                await gizmos.clear()
            assert process.status is None
        await client.close()
    assert "Traceback" not in process.log


async def test_an_operator_continues_after_a_real_api_server_is_killed_and_restarted(
    kubewright_target: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if kubewright_target != "real":
        pytest.skip("the embedded API server is killed in the test above")
    async with RealControlPlane() as control_plane:
        cluster = Cluster(control_plane.config, tmp_path)
        gizmos = Gizmos(cluster.client, "default")
        caplog.set_level(logging.INFO, "kubewright.cache")
        async with operated(cluster, "default", [reconcile]) as (line, gate):
            await gizmos.populate()
            await gizmos.shake()
            await control_plane.restart_api_server()
            await gizmos.rest(gate)
            await gizmos.clear()
            await gizmos.populate()
            line.go_down()
            await gizmos.shake()
            await control_plane.restart_api_server()  # it has no earlier changes
            line.come_up()
            await gizmos.rest(gate)
        assert "too old resource version" in caplog.text
        await cluster.close()
