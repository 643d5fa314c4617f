"""Webhooks over HTTPS. These tests use sockets, so they run in real time, and none of them waits."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
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
from kubewright_controlplane.apiserver.pki import CertificateAuthority, KeyPair
from unit.apiserver.admission.webhooks.harness import ALLOW, GROUP, configure, failure, review_answer
from unit.apiserver.harness import API, CONFIG_MAPS, MERGE

MIB = 1024 * 1024


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
