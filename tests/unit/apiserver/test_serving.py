"""A server with TLS: certificates, kubeconfigs, and its data folder."""

from __future__ import annotations

import base64
import json
import ssl
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kubewright.http.client import HTTPClient
from kubewright.http.message import Request
from kubewright.machinery.errors import ConfigError, ConnectionFailed
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.pki import CertificateAuthority
from kubewright_controlplane.apiserver.serving import ServedAPI


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedAPI]:
    served = ServedAPI(ServerOptions(data=tmp_path / "data"))
    await served.start()
    yield served
    await served.close()


async def ask(
    kubeconfig: dict[str, Any], tmp_path: Path, method: str, target: str, body: object = None
) -> dict[str, Any]:
    """Send a request as the user of the kubeconfig."""
    cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    pair = tmp_path / "client.pem"
    pair.write_bytes(base64.b64decode(user["client-key-data"]) + base64.b64decode(user["client-certificate-data"]))
    context.load_cert_chain(pair)
    client = HTTPClient(cluster["server"], ssl=context)
    data = b"" if body is None else json.dumps(body).encode()
    response = await client.send(Request(method, target, {"content-type": "application/json"}, data))
    document: dict[str, Any] = json.loads(await response.read())
    await client.close()
    return document


async def test_a_kubeconfig_is_for_the_administrator_by_default(served: ServedAPI, tmp_path: Path) -> None:
    listed = await ask(served.kubeconfig(), tmp_path, "GET", "/api/v1/namespaces")
    assert listed["kind"] == "NamespaceList"
    status = await ask(served.kubeconfig("bob", ["builders"]), tmp_path, "GET", "/api/v1/namespaces")
    assert 'User "bob" cannot list resource "namespaces"' in status["message"]


async def test_a_kubeconfig_is_readable_only_by_its_owner(served: ServedAPI, tmp_path: Path) -> None:
    path = tmp_path / "some" / "kubeconfig"
    served.write_kubeconfig(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["current-context"] == "kubewright"
    assert [file.name for file in path.parent.iterdir()] == ["kubeconfig"]


@pytest.mark.parametrize("name", ["ca.key", "ca.crt", "front-proxy-ca.key", "service-account.key"])
async def test_keys_are_private_and_do_not_follow_links(tmp_path: Path, name: str) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    data.mkdir()
    (data / name).symlink_to(elsewhere)
    served = ServedAPI(ServerOptions(data=data))
    await served.start()
    await served.close()
    assert not elsewhere.exists()
    assert {stat.S_IMODE(file.stat().st_mode) for file in data.iterdir() if file.is_file()} == {0o600}
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in data.iterdir() if folder.is_dir()} <= {0o700}
    assert not any(file.is_symlink() for file in data.iterdir())


async def test_kubeconfigs_and_objects_stay_valid_after_a_restart(tmp_path: Path) -> None:
    options = ServerOptions(data=tmp_path / "data")
    first = ServedAPI(options)
    await first.start()
    kubeconfig, port = first.kubeconfig(), first.port
    made = await ask(kubeconfig, tmp_path, "POST", "/api/v1/namespaces", {"metadata": {"name": "kept"}})
    await first.close()

    second = ServedAPI(options, port=port)
    await second.start()
    assert await ask(kubeconfig, tmp_path, "GET", "/api/v1/namespaces/kept") == made
    await second.close()


async def test_custom_resources_are_served_again_after_a_restart(tmp_path: Path) -> None:
    options = ServerOptions(data=tmp_path / "data")
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"kind": "Foo", "plural": "foos"},
        "versions": [version],
    }
    definition = {"metadata": {"name": "foos.example.com"}, "spec": spec}
    foo = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "f"}, "spec": {"a": "b"}}
    first = ServedAPI(options)
    await first.start()
    await ask(
        first.kubeconfig(), tmp_path, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition
    )
    made = await ask(first.kubeconfig(), tmp_path, "POST", "/apis/example.com/v1/foos", foo)
    await first.close()

    second = ServedAPI(options)
    await second.start()
    assert await ask(second.kubeconfig(), tmp_path, "GET", "/apis/example.com/v1/foos/f") == made
    await second.close()


async def test_a_second_server_on_the_same_folder_names_the_first(served: ServedAPI) -> None:
    with pytest.raises(ConfigError, match=r"is in use by process \d+; stop that server, or choose another folder"):
        ServedAPI(served.api.options)


async def test_the_error_of_a_port_in_use_names_it(served: ServedAPI) -> None:
    other = ServedAPI(port=served.port)
    with pytest.raises(ConfigError, match=str(served.port)):
        await other.start()
    await other.close()


async def test_a_certificate_of_another_authority_is_rejected(served: ServedAPI, tmp_path: Path) -> None:
    pair = CertificateAuthority.create().issue_client("kubernetes-admin", ["system:masters"])
    kubeconfig = served.kubeconfig()
    kubeconfig["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
    }
    with pytest.raises(ConnectionFailed):
        await ask(kubeconfig, tmp_path, "GET", "/api/v1/namespaces")


async def test_the_kubernetes_service_has_the_port_of_the_server(served: ServedAPI, tmp_path: Path) -> None:
    path = "/api/v1/namespaces/default/services/kubernetes"
    service = await ask(served.kubeconfig(), tmp_path, "GET", path)
    assert service["spec"]["clusterIP"] == "10.96.0.1"
    assert [(each["port"], each["targetPort"]) for each in service["spec"]["ports"]] == [(443, served.port)]
