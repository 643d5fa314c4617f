"""An operator written with Kopf and the official Python client, against `kubewright-controlplane`.

Kopf is installed once per machine, into an environment of its own. The tests are skipped if it cannot be installed.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from benchmarks.peers import KOPF, Peer
from benchmarks.peers.build import build
from benchmarks.peers.kubewright.widgets import Widget, WidgetSpec

from integration.command import CONTROL_PLANE, cluster_of, up
from kubewright import ObjectMeta
from kubewright.apis.core.v1 import ConfigMap
from kubewright.testing import eventually, gone

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("kopf")]


@pytest.fixture(scope="session")
def kopf() -> Peer:
    """The environment with Kopf, and the operator in it."""
    found = build([KOPF])
    if not found:
        pytest.skip("Kopf can't be installed on this machine")
    return found[0]


@contextmanager
def running(operator: Peer, kubeconfig: Path, log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            operator.widgets,
            env={**operator.environment, "KUBECONFIG": str(kubeconfig)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
            assert process.poll() is None, log.read_text()
        finally:
            process.terminate()
            process.wait(30)


async def test_a_kopf_operator_reconciles_objects_and_their_children_are_collected(kopf: Peer, tmp_path: Path) -> None:
    with up(tmp_path, command=(CONTROL_PLANE,)) as started:
        async with cluster_of(started) as cluster:
            await cluster.install(Widget)
            with running(kopf, started.kubeconfig, tmp_path / "kopf.log"):
                widget = await cluster.client.create(
                    Widget(
                        metadata=ObjectMeta(name="one", namespace="default"), spec=WidgetSpec(message="hello", size=3)
                    )
                )

                async def reconciled() -> None:
                    child = await cluster.client.get(ConfigMap, "one", namespace="default")
                    assert child.data == {"message": "hello", "size": "3"}
                    parent = await cluster.client.get(Widget, "one", namespace="default")
                    assert parent.status.config_map == "one"

                await eventually(reconciled)
            await cluster.client.delete(widget)
            await gone(cluster.client.get, ConfigMap, "one", namespace="default")


async def test_the_official_python_client_takes_the_kubeconfig_fixture(kopf: Peer, kubewright_kubeconfig: Path) -> None:
    program = (
        "import kubernetes, sys\n"
        "api = kubernetes.config.new_client_from_config(sys.argv[1])\n"
        "print(kubernetes.client.CoreV1Api(api).read_namespace('default').metadata.name)\n"
    )
    process = await asyncio.create_subprocess_exec(
        kopf.widgets[0], "-c", program, str(kubewright_kubeconfig), stdout=subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output == b"default\n"
