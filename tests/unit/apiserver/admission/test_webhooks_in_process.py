"""Webhooks in the process of the server, and what a hostile or broken one can do."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import logging
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kubewright.http.message import Handler, Request, Response
from kubewright.http.server import Server
from kubewright.testing import VirtualClock
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.pki import CertificateAuthority, KeyPair
from kubewright_controlplane.apiserver.server import APIServer
from kubewright_controlplane.apiserver.user import UserInfo
from unit.apiserver.harness import ADMIN, API, CONFIG_MAPS, MERGE

GROUP = "/apis/admissionregistration.k8s.io/v1"
MIB = 1024 * 1024
Webhooks = dict[str, Handler]


@pytest.fixture
def webhooks() -> Webhooks:
    """The webhooks in this process, by host."""
    return {}


@pytest.fixture
async def api(clock: VirtualClock, webhooks: Webhooks) -> AsyncIterator[API]:
    options = ServerOptions(clock=clock, tokens={"admin": ADMIN, "bob": UserInfo("bob")}, webhooks=webhooks)
    server = APIServer(options)
    await server.start()
    yield API(server, clock)
    await server.close()


def answering(response: dict[str, Any]) -> Handler:
    async def handle(request: Request) -> Response:
        return review_answer(request, response)

    return handle


def review_answer(request: Request, response: dict[str, Any]) -> Response:
    review = json.loads(request.body)
    answer = {
        "kind": "AdmissionReview",
        "apiVersion": review["apiVersion"],
        "response": {"uid": review["request"]["uid"], **response},
    }
    return Response(200, {"content-type": "application/json"}, json.dumps(answer).encode())


ALLOW = answering({"allowed": True})


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


async def configure(api: API, kind: str = "validating", name: str = "c", **webhook: Any) -> None:
    rules = [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]
    entry = {
        "name": "hook.example.com",
        "clientConfig": {"url": "https://hooks.test/x"},
        "rules": rules,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **webhook,
    }
    await api.ok("POST", f"{GROUP}/{kind}webhookconfigurations", {"metadata": {"name": name}, "webhooks": [entry]})


async def test_a_webhook_in_this_process_needs_no_port(api: API, webhooks: Webhooks) -> None:
    seen: list[Request] = []

    async def handle(request: Request) -> Response:
        seen.append(request)
        return review_answer(request, {"allowed": False, "status": {"message": "no"}})

    webhooks["hooks.test"] = handle
    await configure(api)
    status = await api.rejected(400, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert status["message"] == 'admission webhook "hook.example.com" denied the request: no'
    assert (seen[0].method, seen[0].target) == ("POST", "/x?timeout=10s")
    assert seen[0].headers["content-type"] == "application/json"
    webhooks["hooks.test"] = ALLOW
    await api.config_map("a")


async def test_a_webhook_of_a_service_in_this_process_has_the_name_of_the_service(api: API, webhooks: Webhooks) -> None:
    webhooks["s.default.svc"] = answering(patch({"op": "add", "path": "/data", "value": {"k": "v"}}))
    await configure(api, "mutating", clientConfig={"service": {"name": "s", "namespace": "default", "path": "/p"}})
    assert (await api.config_map("a"))["data"] == {"k": "v"}


async def test_a_removed_or_changed_configuration_has_an_effect_at_once(api: API, webhooks: Webhooks) -> None:
    webhooks["hooks.test"] = answering({"allowed": False})
    await configure(api)
    await api.rejected(400, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    path = f"{GROUP}/validatingwebhookconfigurations/c"
    changed = [{"op": "replace", "path": "/webhooks/0/rules/0/resources/0", "value": "secrets"}]
    await api.ok("PATCH", path, changed, content_type="application/json-patch+json")
    await api.config_map("a")
    await api.ok("DELETE", path)
    await api.ok("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})


async def test_configurations_are_found_again_after_a_restart(
    tmp_path: Path, clock: VirtualClock, webhooks: Webhooks
) -> None:
    webhooks["hooks.test"] = answering({"allowed": False})
    options = ServerOptions(clock=clock, tokens={"admin": ADMIN}, webhooks=webhooks, data=tmp_path)
    server = APIServer(options)
    await server.start()
    await configure(API(server, clock))
    await server.close()
    server = APIServer(options)
    await server.start()
    await API(server, clock).rejected(400, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    await server.close()


async def test_a_dry_run_is_rejected_if_a_webhook_has_side_effects_then(api: API, webhooks: Webhooks) -> None:
    webhooks["hooks.test"] = ALLOW
    await configure(api)
    stored = api.server.resources.registry("validatingwebhookconfigurations.admissionregistration.k8s.io")
    configuration = stored.read("c")
    assert configuration is not None
    configuration["webhooks"][0]["sideEffects"] = "Some"  # as an older server may have stored it
    stored.commit(configuration)
    status = await api.rejected(400, "POST", f"{CONFIG_MAPS}?dryRun=All", {"metadata": {"name": "a"}})
    assert status["message"] == 'admission webhook "hook.example.com" does not support dry run'
    await api.config_map("a")


async def test_a_webhook_of_a_custom_kind_sees_and_changes_its_version(api: API, webhooks: Webhooks) -> None:
    seen: list[dict[str, Any]] = []
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}}},
    }
    versions = [
        {"name": name, "served": True, "storage": name == "v2", "schema": {"openAPIV3Schema": schema}}
        for name in ("v1", "v2")
    ]
    crd = {
        "metadata": {"name": "webs.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "webs", "kind": "Web"},
            "versions": versions,
        },
    }
    await api.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    answer = patch({"op": "add", "path": "/spec", "value": {}}, {"op": "add", "path": "/bogus", "value": 1})

    async def handle(request: Request) -> Response:
        seen.append(json.loads(request.body)["request"])
        return review_answer(request, answer)

    webhooks["hooks.test"] = handle
    rules = [{"operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["webs"]}]
    await configure(api, "mutating", rules=rules)
    body = {"apiVersion": "example.com/v2", "kind": "Web", "metadata": {"name": "w"}}
    made = await api.ok("POST", "/apis/example.com/v2/namespaces/default/webs", body)
    assert (made["apiVersion"], made["spec"]) == ("example.com/v2", {"size": 1})
    assert "bogus" not in made
    assert seen[0]["object"]["apiVersion"] == "example.com/v1"
    assert (seen[0]["kind"]["version"], seen[0]["requestKind"]["version"]) == ("v1", "v2")


async def test_a_namespace_that_does_not_exist_is_reported_if_a_selector_asks_for_it(
    api: API, webhooks: Webhooks
) -> None:
    webhooks["hooks.test"] = ALLOW
    rules = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]
    await configure(api, rules=rules, namespaceSelector={"matchLabels": {"a": "b"}})
    review = {"metadata": {"namespace": "nons"}, "spec": {"user": "x", "resourceAttributes": {"namespace": "nons"}}}
    path = "/apis/authorization.k8s.io/v1/namespaces/nons/localsubjectaccessreviews"
    status = await api.rejected(404, "POST", path, review)
    assert status["message"] == 'namespaces "nons" not found'


async def test_quotas_are_checked_after_the_webhooks(api: API, webhooks: Webhooks) -> None:
    gate = asyncio.Event()

    async def handle(request: Request) -> Response:
        await gate.wait()
        return review_answer(request, {"allowed": True})

    webhooks["hooks.test"] = handle
    await api.ok(
        "POST",
        "/api/v1/namespaces/default/resourcequotas",
        {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "2"}}},
    )
    await configure(api)
    writes = [asyncio.create_task(api("POST", CONFIG_MAPS, {"metadata": {"name": f"c{i}"}})) for i in range(4)]
    await asyncio.sleep(1)
    gate.set()
    codes = sorted([(await each).status for each in writes])
    assert codes.count(403) == 4 - codes.count(201)
    found = await api.ok("GET", CONFIG_MAPS)
    assert len(found["items"]) == 2


# Hostile and broken webhooks


async def failure(api: API, name: str = "a") -> str:
    status = await api.rejected(500, "POST", CONFIG_MAPS, {"metadata": {"name": name}})
    text: str = status["message"]
    return text.removeprefix(
        'Internal error occurred: failed calling webhook "hook.example.com": failed to call webhook: '
    )


async def test_audit_annotations_are_logged_also_those_of_a_denial(
    api: API, webhooks: Webhooks, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    webhooks["hooks.test"] = answering({"allowed": False, "auditAnnotations": {"why": "too late"}})
    await configure(api)
    await api.rejected(400, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    (line,) = [each for each in caplog.records if each.msg == "Audit annotation recorded"]
    assert line.fields == {"key": "hook.example.com/why", "value": "too late"}  # type: ignore[attr-defined]


async def test_a_slow_webhook_times_out_and_others_are_served_meanwhile(api: API, webhooks: Webhooks) -> None:
    async def handle(request: Request) -> Response:
        await asyncio.sleep(3600)
        raise AssertionError

    webhooks["hooks.test"] = handle
    await configure(api, timeoutSeconds=3)
    loop = asyncio.get_running_loop()
    start = loop.time()
    slow = asyncio.create_task(failure(api))
    await asyncio.sleep(0)
    await api.ok("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
    assert loop.time() == start
    assert await slow == 'Post "https://hooks.test/x?timeout=3s": context deadline exceeded'
    assert loop.time() == start + 3


async def test_a_call_ends_with_the_request_that_caused_it(api: API, webhooks: Webhooks) -> None:
    cancelled: list[str] = []

    async def handle(request: Request) -> Response:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(request.path)
            raise
        raise AssertionError

    webhooks["hooks.test"] = handle
    await configure(api)
    task = asyncio.create_task(api("POST", CONFIG_MAPS, {"metadata": {"name": "a"}}))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled == ["/x"]


async def test_a_webhook_that_matches_its_own_writes_comes_to_an_end(api: API, webhooks: Webhooks) -> None:
    calls = 0

    async def handle(request: Request) -> Response:
        nonlocal calls
        calls += 1
        await api("POST", CONFIG_MAPS, {"metadata": {"generateName": "x-"}})
        return review_answer(request, {"allowed": True})

    webhooks["hooks.test"] = handle
    await configure(api, timeoutSeconds=1)
    response = await api("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert response.status in (201, 500)  # whether the first or the last call times out first
    assert calls == 100


async def test_a_webhook_whose_program_fails_is_a_failed_call(api: API, webhooks: Webhooks) -> None:
    async def handle(request: Request) -> Response:
        raise KeyError("oops")

    webhooks["hooks.test"] = handle
    await configure(api)
    assert "its handler failed: KeyError('oops')" in await failure(api)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_huge_answer_is_not_read_to_its_end(api: API, webhooks: Webhooks, streamed: bool) -> None:
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += MIB
            yield bytes(MIB)

    async def handle(request: Request) -> Response:
        return Response(200, {}, endless() if streamed else bytes(17 * MIB))

    webhooks["hooks.test"] = handle
    await configure(api)
    assert "its body has more than 16777216 bytes" in await failure(api)
    assert read <= 18 * MIB


async def test_deeply_nested_and_repeated_patches_are_bounded(api: API, webhooks: Webhooks) -> None:
    nested = base64.b64encode(b"[" * 100_000).decode()
    webhooks["hooks.test"] = answering({"allowed": True, "patchType": "JSONPatch", "patch": nested})
    await configure(api, "mutating")
    assert "received undecodable patch" in await failure(api)
    many = [{"op": "test", "path": "/metadata/name", "value": "a"}] * 10_001
    webhooks["hooks.test"] = answering(patch(*many))
    assert "allowed maximum operations in a JSON patch is 10000" in await failure(api)
    bomb = [{"op": "add", "path": "/data", "value": {"a": "x" * 100_000}}]
    bomb += [{"op": "copy", "from": "/data", "path": f"/data/c{index}"} for index in range(40)]
    webhooks["hooks.test"] = answering(patch(*bomb))
    assert "bytes were copied" in await failure(api)


def nested(depth: int) -> Any:
    return json.loads('{"a":' * depth + "1" + "}" * depth)


def nesting_moves(times: int) -> list[dict[str, Any]]:
    """Return small operations that nest an object ever deeper."""
    step = [
        {"op": "add", "path": "/outer", "value": {}},
        {"op": "move", "from": "/metadata/annotations", "path": "/outer/a"},
        {"op": "move", "from": "/outer", "path": "/metadata/annotations"},
    ]
    return [{"op": "add", "path": "/metadata/annotations", "value": {}}, *step * times]


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([{"op": "add", "path": "/metadata/annotations", "value": nested(900)}], id="value"),
        pytest.param([{"op": "add", "path": "/unknown", "value": nested(900)}], id="unknown field"),
        pytest.param(nesting_moves(3000), id="moves"),
        pytest.param([{"op": "add", "path": "/a" * 1_000_000, "value": 1}], id="path"),
        pytest.param([{"op": "move", "from": "", "path": "/metadata/x"}], id="root"),
        pytest.param([{"op": "move", "from": "/metadata", "path": "/metadata/x"}], id="into itself"),
    ],
)
async def test_a_patch_that_nests_the_object_is_the_fault_of_the_webhook(
    api: API, webhooks: Webhooks, operations: list[dict[str, Any]]
) -> None:
    webhooks["hooks.test"] = answering(patch(*operations))
    await configure(api, "mutating")
    text = await failure(api)
    assert len(text) < 1000
    webhooks["hooks.test"] = ALLOW
    await api.config_map("b")


@pytest.mark.parametrize(
    "body",
    [
        b"sorry",
        b"\xff\xfe\x00",
        b"null",
        b"[]",
        b"{} {}",
        b'{"a":' * 100_000,
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"allowed":NaN}}',
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":[]}',
    ],
    ids=["text", "binary", "null", "list", "two", "deep", "number", "response"],
)
async def test_a_body_that_is_not_a_review_is_a_failed_call(api: API, webhooks: Webhooks, body: bytes) -> None:
    async def handle(request: Request) -> Response:
        return Response(200, {}, body)

    webhooks["hooks.test"] = handle
    await configure(api)
    assert "json" in (await failure(api)).lower()


async def test_a_code_with_four_digits_is_an_internal_error(api: API, webhooks: Webhooks) -> None:
    webhooks["hooks.test"] = answering({"allowed": False, "status": {"code": 1000, "message": "no"}})
    await configure(api)
    status = await api.rejected(500, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert status["message"] == 'admission webhook "hook.example.com" denied the request: no'


async def test_a_webhook_that_keeps_changing_the_object_is_called_twice(api: API, webhooks: Webhooks) -> None:
    calls = 0

    async def handle(request: Request) -> Response:
        nonlocal calls
        calls += 1
        return review_answer(request, patch({"op": "add", "path": "/data", "value": {"calls": str(calls)}}))

    webhooks["hooks.test"] = handle
    await configure(api, "mutating", "a", reinvocationPolicy="IfNeeded")
    await configure(api, "mutating", "b", reinvocationPolicy="IfNeeded")
    made = await api.config_map("a")
    assert made["data"] == {"calls": "4"}


async def test_a_write_whose_object_always_changes_meanwhile_is_a_conflict(api: API, webhooks: Webhooks) -> None:
    await api.config_map("a")
    calls = 0

    async def handle(request: Request) -> Response:
        nonlocal calls
        calls += 1
        registry = api.server.resources.registry("configmaps")
        target = registry.open("a", "default")
        registry.replace(target, {**target.draft(), "data": {"other": str(calls)}})
        return review_answer(request, {"allowed": True, "warnings": ["called"]})

    webhooks["hooks.test"] = handle
    await configure(api)
    response = await api("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "v"}}, content_type=MERGE)
    assert response.status == 409
    assert calls == 5
    assert response.headers["warning"] == '299 - "called"'


# Over HTTPS. These tests use sockets, so they run in real time, and none of them waits.


class Site:
    """A webhook over HTTPS."""

    def __init__(self, handler: Handler, names: tuple[str, ...], host: str, pair: KeyPair | None = None) -> None:
        self.authority = CertificateAuthority.create()
        pair = pair or self.authority.issue_server(names)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "server.pem")
            file.write_bytes(pair.key + pair.certificate)
            context.load_cert_chain(file)
        self.server = Server(handler, host=host, ssl=context)

    @property
    def ca(self) -> str:
        return base64.b64encode(self.authority.certificate).decode()

    @property
    def client(self) -> dict[str, Any]:
        return {"url": f"https://127.0.0.1:{self.server.port}/x", "caBundle": self.ca}


Serve = Callable[..., Awaitable[Site]]


@pytest.fixture
async def site() -> AsyncIterator[Serve]:
    sites: list[Site] = []

    async def serve(handler: Handler, *names: str, host: str = "127.0.0.1", pair: KeyPair | None = None) -> Site:
        found = Site(handler, names or ("127.0.0.1",), host, pair)
        await found.server.start()
        sites.append(found)
        return found

    yield serve
    for each in sites:
        await each.server.close()


async def test_a_webhook_over_https_keeps_its_connection(api: API, site: Serve) -> None:
    peers: set[str] = set()

    async def handle(request: Request) -> Response:
        assert request.peer is not None
        peers.add(request.peer.address)
        return review_answer(request, {"allowed": True})

    found = await site(handle)
    await configure(api, clientConfig=found.client)
    for index in range(5):
        await api.config_map(f"c{index}")
    assert len(peers) == 1


async def test_the_certificate_must_be_trusted_and_name_the_host(api: API, site: Serve) -> None:
    trusted, other = await site(ALLOW), await site(ALLOW, "other.example.com")
    await configure(api, clientConfig={"url": trusted.client["url"], "caBundle": other.ca})
    assert "x509: certificate signed by unknown authority" in await failure(api)
    await api.ok("DELETE", f"{GROUP}/validatingwebhookconfigurations/c")
    await configure(api, clientConfig=other.client)
    assert "tls: failed to verify certificate: x509" in await failure(api)
    await api.ok("DELETE", f"{GROUP}/validatingwebhookconfigurations/c")
    await configure(api, clientConfig={**trusted.client, "caBundle": base64.b64encode(b"nonsense").decode()})
    status = await api.rejected(500, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert status["message"].endswith(
        "could not get REST client: unable to load root certificates: unable to parse bytes as PEM block"
    )


async def test_an_expired_certificate_is_not_trusted(api: API, site: Serve) -> None:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    address = x509.IPAddress(ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(datetime(2001, 1, 1))
        .not_valid_after(datetime(2002, 1, 1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    found = await site(ALLOW, pair=KeyPair(certificate, pem))
    await configure(api, clientConfig={**found.client, "caBundle": base64.b64encode(certificate).decode()})
    assert "x509: certificate has expired or is not yet valid" in await failure(api)


@pytest.mark.skipif(sys.platform != "linux", reason="needs the addresses of Pods that are processes")
async def test_a_service_is_called_at_its_endpoint_under_its_own_name(api: API, site: Serve) -> None:
    hosts: list[str] = []

    async def handle(request: Request) -> Response:
        hosts.append(request.headers["host"])
        return review_answer(request, {"allowed": True})

    found = await site(handle, "s.default.svc", host="127.64.255.9")
    config = {"service": {"name": "s", "namespace": "default", "port": 8443, "path": "/p"}, "caBundle": found.ca}
    await configure(api, clientConfig=config)
    assert await failure(api) == 'Post "https://s.default.svc:8443/p?timeout=10s": service "s" not found'
    core = "/api/v1/namespaces/default"
    ports = [{"name": "https", "port": 8443, "targetPort": found.server.port}]
    await api.ok("POST", f"{core}/services", {"metadata": {"name": "s"}, "spec": {"ports": ports}})
    assert (await failure(api)).endswith('no endpoints available for service "s"')
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    metadata = {"name": "s-1", "labels": {"kubernetes.io/service-name": "s"}}
    body = {
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["10.244.0.7"], "conditions": {"ready": True}},
            {"addresses": ["127.64.255.8"], "conditions": {"ready": False}},
        ],
        "ports": [{"name": "https", "port": found.server.port}],
    }
    await api.ok("POST", slices, body)
    assert "its endpoints are simulated Pods" in await failure(api)
    endpoints = {"endpoints": [*body["endpoints"], {"addresses": ["127.64.255.9"], "conditions": {"ready": True}}]}
    await api.ok("PATCH", f"{slices}/s-1", endpoints, content_type=MERGE)
    await api.config_map("a")
    assert hosts == ["s.default.svc:8443"]
    missing = [{"op": "replace", "path": "/webhooks/0/clientConfig/service/port", "value": 9}]
    path = f"{GROUP}/validatingwebhookconfigurations/c"
    await api.ok("PATCH", path, missing, content_type="application/json-patch+json")
    assert (await failure(api, "b")).endswith('no service port 9 found for service "s"')


@pytest.mark.parametrize(
    ("location", "fault"),
    [
        ("https://other.test/x", 'Post "https://other.test/x": redirects to other servers are not followed'),
        ("http://HOST/x", 'Post "http://HOST/x": redirects to other servers are not followed'),
        ("//other.test", 'Post "https://other.test": redirects to other servers are not followed'),
        ("https://HOST:99999/x", "redirected to an invalid address"),
        ("https://[x", "redirected to an invalid address"),
    ],
)
async def test_a_redirect_to_another_server_is_not_followed(
    api: API, webhooks: Webhooks, location: str, fault: str
) -> None:
    async def handle(request: Request) -> Response:
        assert request.path == "/x"
        return Response(307, {"location": location.replace("HOST", "hooks.test")})

    webhooks["hooks.test"] = handle
    await configure(api)
    assert fault.replace("HOST", "hooks.test") in await failure(api)


async def test_a_compressed_bomb_is_not_inflated(api: API, site: Serve) -> None:
    bomb = gzip.compress(bytes(64 * MIB))

    async def handle(request: Request) -> Response:
        return Response(200, {"content-encoding": "gzip"}, bomb)

    found = await site(handle)
    await configure(api, clientConfig=found.client)
    assert "its body has more than 16777216 bytes" in await failure(api)


async def test_an_endless_answer_is_not_read(api: API, site: Serve) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(MIB)

    async def handle(request: Request) -> Response:
        return Response(200, {}, endless())

    found = await site(handle)
    await configure(api, clientConfig=found.client)
    assert "more than 16777216 bytes" in await failure(api)


HTTP2_SETTINGS = b"\0\0\0\x04\0\0\0\0\0"


@pytest.mark.parametrize(
    "answer", [HTTP2_SETTINGS, b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 3_000_000], ids=["2", "head"]
)
async def test_an_answer_that_is_not_http1_is_a_failed_call(api: API, answer: bytes) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            writer.write(answer)
            await writer.drain()
            await reader.read()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority = CertificateAuthority.create()
    pair = authority.issue_server(["127.0.0.1"])
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.key + pair.certificate)
        file.flush()
        context.load_cert_chain(file.name)
    server = await asyncio.start_server(speak, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    await configure(api, clientConfig={"url": url, "caBundle": base64.b64encode(authority.certificate).decode()})
    text = await failure(api)
    assert text.startswith(f'Post "{url}/?timeout=10s": ')
    assert len(text) < 1000
    server.close()


async def test_a_program_that_does_not_speak_http_is_a_failed_call(api: API) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"what?\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await configure(api, clientConfig={"url": f"https://127.0.0.1:{port}"})
    assert (await failure(api)).startswith(f'Post "https://127.0.0.1:{port}/?timeout=10s": ')
    server.close()
