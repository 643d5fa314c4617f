"""Operators written with Kopf and the official Python client, against `kubewright-controlplane`.

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
from kubewright import Client, ObjectMeta
from kubewright.apis.admissionregistration.v1 import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from kubewright.apis.core.v1 import ConfigMap
from kubewright.machinery.errors import APIError, Status
from kubewright.testing import Cluster, eventually, gone
from kubewright_controlplane.apiserver.pki import CertificateAuthority

ADMISSION = Path(__file__).with_name("kopf") / "admission.py"
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("kopf")]


@pytest.fixture(scope="session")
def kopf() -> Peer:
    """The environment with Kopf, and the operator in it."""
    found = build([KOPF])
    if not found:
        pytest.skip("Kopf can't be installed on this machine")
    return found[0]


@contextmanager
def running(
    operator: Peer, kubeconfig: Path, log: Path, program: Path | None = None, **environment: str
) -> Iterator[None]:
    """Run the operator, or another `program` for Kopf, for the duration of the block."""
    command = operator.operators["widgets"] if program is None else (*operator.operators["widgets"][:-1], str(program))
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env={**operator.environment, "KUBECONFIG": str(kubeconfig), **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
            assert process.poll() is None, log.read_text()
        finally:
            process.terminate()
            process.wait(120)


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


async def test_kopf_registers_and_serves_its_admission_handlers(
    kopf: Peer, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    pair = CertificateAuthority.create().issue_server(["127.0.0.1"])
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    warnings: list[str] = []
    client = Client(cluster.config, on_warning=warnings.append)

    def door(name: str, **data: str) -> ConfigMap:
        return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, labels={"door": "yes"}), data=data)

    async def refusal(name: str) -> Status:
        try:
            await client.create(door(name, color="black"), dry_run=True)
        except APIError as error:
            return error.status
        return Status()

    async def is_registered() -> None:
        tried = await client.create(door("tried"), dry_run=True)
        assert tried.metadata.labels.get("tried") == "yes"
        assert "no black doors" in (await refusal("black")).message

    variables = {"CERTIFICATE": str(certificate), "KEY": str(key)}
    with running(kopf, cluster.kubeconfig(), tmp_path / "kopf.log", ADMISSION, **variables):
        await eventually(is_registered)
        white = await client.create(door("white"))
        assert white.data == {"color": "white"}
        assert "white is the default color" in warnings
        denied = await refusal("black")
        text = 'admission webhook "colors.doors.example.com" denied the request: no black doors'
        assert (denied.code, denied.message) == (422, text)
        white.data["color"] = "red"
        with pytest.raises(APIError, match="doors are not painted"):
            await client.update(white)
        white.data["color"] = "white"
        white.metadata.labels["door"] = "kept"
        white = await client.update(white)
        with pytest.raises(APIError, match="white is kept from"):
            await client.delete(white)
    await client.delete(white)  # Kopf has removed its webhooks
    for kind in (MutatingWebhookConfiguration, ValidatingWebhookConfiguration):
        await client.delete(kind, "doors.example.com")
    await client.close()


async def test_the_official_python_client_takes_the_kubeconfig_fixture(kopf: Peer, kubewright_kubeconfig: Path) -> None:
    program = (
        "import kubernetes, sys\n"
        "api = kubernetes.config.new_client_from_config(sys.argv[1])\n"
        "print(kubernetes.client.CoreV1Api(api).read_namespace('default').metadata.name)\n"
    )
    process = await asyncio.create_subprocess_exec(
        kopf.operators["widgets"][0], "-c", program, str(kubewright_kubeconfig), stdout=subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output == b"default\n"
