"""What goes away under an operator and comes again: its API server, its kind."""

from __future__ import annotations

import signal
import socket
from contextlib import ExitStack
from pathlib import Path

from integration.command import up
from integration.gizmo_operator import Gizmo, reconcile
from kubewright import Client, Config
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.models import codec
from kubewright.models.crd import custom_resource_definition
from kubewright.testing import Environment, eventually, gone, running
from robustness.gizmos import Gizmos, operator
from robustness.processes import operator as operator_process

DEFINITION = codec.from_dict(CustomResourceDefinition, custom_resource_definition(Gizmo))


async def test_an_api_server_that_is_killed_and_comes_again_is_gone_on_with(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        arguments = ("--data", tmp_path / "data", "--port", free.getsockname()[1])
    kubeconfig = tmp_path / "operator.kubeconfig"
    with ExitStack() as stack:
        server = stack.enter_context(up(tmp_path, *arguments))
        server.kubeconfig.rename(kubeconfig)  # its certificate is as good for the servers that follow
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


async def test_a_kind_that_is_uninstalled_and_installed_again_is_picked_up() -> None:
    async with Environment() as cluster, cluster.namespace() as namespace:
        await cluster.install(Gizmo)
        gizmos = Gizmos(cluster.client, namespace)
        async with running(operator(cluster.config, [reconcile])):
            await gizmos.populate()
            await cluster.client.delete(CustomResourceDefinition, DEFINITION.metadata.name)
            await gone(cluster.client.get, CustomResourceDefinition, DEFINITION.metadata.name)
            await cluster.install(Gizmo)
            await gizmos.take_stock()
            assert gizmos.wanted == {}
            await gizmos.populate()
