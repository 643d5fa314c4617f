"""cert-manager against the control plane: it issues certificates, cainjector injects CAs, and its webhook is called.

The program is in `certmanager/`. Building it takes minutes the first time.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from clients.goprograms import BUILD_SECONDS, go_program
from conformance.rawapi import API, Answer, until
from kubewright.machinery import yaml
from kubewright.testing import Cluster, eventually

SOURCE = Path(__file__).with_name("certmanager")
MODULE = "github.com/cert-manager/cert-manager"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("go") is None, reason="Go was not found"),
    pytest.mark.timeout(2 * BUILD_SECONDS + 300),
]


@dataclass
class CertManager:
    """A running cert-manager, and a namespace for its objects."""

    api: API
    namespace: str

    @property
    def path(self) -> str:
        return f"/apis/cert-manager.io/v1/namespaces/{self.namespace}"

    async def create(self, kind: str, name: str, spec: dict[str, Any]) -> Answer:
        document = {"apiVersion": "cert-manager.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        return await self.api.post(f"{self.path}/{kind.lower()}s", document)

    async def issue(self, name: str, spec: dict[str, Any]) -> dict[str, str]:
        """Create a Certificate, and return the data of its Secret when it is ready."""
        (await self.create("Certificate", name, {"secretName": name, "commonName": name, **spec})).expect(201)

        async def is_ready() -> bool:
            status = (await self.api.get(f"{self.path}/certificates/{name}")).json.get("status", {})
            return any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ()))

        await until(is_ready)
        secret = await self.api.get(f"/api/v1/namespaces/{self.namespace}/secrets/{name}")
        data: dict[str, str] = secret.expect(200).json["data"]
        return data


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return go_program(tmp_path_factory, SOURCE)


@pytest.fixture(scope="module")
def definitions(program: Path) -> list[dict[str, Any]]:
    """The CRDs of cert-manager, from its module."""
    command = ("go", "list", "-m", "-f", "{{.Dir}}", MODULE)
    module = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=True).stdout.strip()
    files = sorted(Path(module, "deploy/crds").glob("*.yaml"))
    return [document for file in files for document in yaml.load_all(file.read_text()) if document]


@pytest_asyncio.fixture
async def manager(
    program: Path, definitions: list[dict[str, Any]], cluster: Cluster, namespace: str, tmp_path: Path
) -> AsyncIterator[CertManager]:
    """Run cert-manager with its CRDs and the configurations of its webhook."""
    api = API(cluster.config)
    for definition in definitions:
        (await api.post(CRDS, definition)).expect(201)
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    spec = {"type": "ExternalName", "externalName": "localhost"}
    service = {"metadata": {"name": "cert-manager-webhook"}, "spec": spec}
    (await api.post(f"/api/v1/namespaces/{namespace}/services", service)).expect(201)
    for kind in ("mutating", "validating"):
        (await api.post(f"{HOOKS}/{kind}webhookconfigurations", webhooks(kind, namespace, port))).expect(201)
    log = tmp_path / "cert-manager.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            program,
            namespace,
            str(port),
            stdout=output,
            stderr=output,
            env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig())},
        )
    try:
        yield CertManager(api, namespace)
        assert process.returncode is None, log.read_text()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        for kind in ("mutating", "validating"):
            await api.delete(f"{HOOKS}/{kind}webhookconfigurations/cert-manager-webhook")
        for definition in definitions:
            await api.delete(f"{CRDS}/{definition['metadata']['name']}")
        await api.close()


def webhooks(kind: str, namespace: str, port: int) -> dict[str, Any]:
    """Return a configuration of cert-manager's webhook, into which cainjector writes the CA."""
    resources, path = (["certificaterequests"], "/mutate") if kind == "mutating" else (["*/*"], "/validate")
    rule = {
        "apiGroups": ["cert-manager.io"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"] if kind == "mutating" else ["CREATE", "UPDATE"],
        "resources": resources,
    }
    webhook = {
        "name": "webhook.cert-manager.io",
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {
            "service": {"name": "cert-manager-webhook", "namespace": namespace, "path": path, "port": port}
        },
    }
    source = {"cert-manager.io/inject-ca-from-secret": f"{namespace}/cert-manager-webhook-ca"}
    return {"metadata": {"name": "cert-manager-webhook", "annotations": source}, "webhooks": [webhook]}


async def test_cert_manager_issues_injects_and_validates(manager: CertManager) -> None:
    api, namespace = manager.api, manager.namespace

    async def is_created() -> None:  # once the CA of the webhook has been injected
        (await manager.create("Issuer", "self-signed", {"selfSigned": {}})).expect(201)

    await eventually(is_created, within=60)
    root = await manager.issue("root", {"isCA": True, "issuerRef": {"name": "self-signed"}})
    assert root["ca.crt"] == root["tls.crt"]
    (await manager.create("Issuer", "ca", {"ca": {"secretName": "root"}})).expect(201)
    serving = await manager.issue("serving", {"dnsNames": ["hooks.example.svc"], "issuerRef": {"name": "ca"}})
    assert (serving["ca.crt"], serving["tls.crt"] != root["tls.crt"]) == (root["tls.crt"], True)

    source = {"cert-manager.io/inject-ca-from": f"{namespace}/serving"}
    service = {"name": "hooks", "namespace": "example"}
    hook = {
        "name": "hooks.example.com",
        "clientConfig": {"service": service},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    configuration = {"metadata": {"name": f"own-{namespace}", "annotations": source}, "webhooks": [hook]}
    (await api.post(f"{HOOKS}/validatingwebhookconfigurations", configuration)).expect(201)
    converting = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
    conversion = {"strategy": "Webhook", "webhook": converting}
    (await api.post(CRDS, definition(source, conversion))).expect(201)

    async def are_injected() -> bool:
        own = (await api.get(f"{HOOKS}/validatingwebhookconfigurations/own-{namespace}")).json["webhooks"][0]
        crd = (await api.get(f"{CRDS}/things.injected.example.com")).json["spec"]["conversion"]["webhook"]
        found = [each["clientConfig"].get("caBundle") for each in (own, crd)]
        return found == [serving["ca.crt"]] * 2

    await until(are_injected)
    denied = (
        await manager.create("Certificate", "wrong", {"secretName": "wrong", "issuerRef": {"name": "ca"}})
    ).expect(403)
    assert denied.message.startswith('admission webhook "webhook.cert-manager.io" denied the request: spec: Invalid')
    (request,) = [
        each
        for each in (await api.get(f"{manager.path}/certificaterequests")).json["items"]
        if each["metadata"]["annotations"]["cert-manager.io/certificate-name"] == "serving"
    ]
    assert request["spec"]["username"]  # from the mutating webhook
    (await api.delete(f"{HOOKS}/validatingwebhookconfigurations/own-{namespace}")).expect(200)
    (await api.delete(f"{CRDS}/things.injected.example.com")).expect(200)


def definition(annotations: dict[str, str], conversion: dict[str, Any]) -> dict[str, Any]:
    """Return a CRD that converts its objects by a webhook."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    return {
        "metadata": {"name": "things.injected.example.com", "annotations": annotations},
        "spec": {
            "group": "injected.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
            "conversion": conversion,
        },
    }
