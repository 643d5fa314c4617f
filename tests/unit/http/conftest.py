"""Certificates, and both event loops: the tests run on each."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import trustme
import uvloop

from kubewright.http.client import HTTPClient
from kubewright.http.message import Handler
from kubewright.http.request_parser import Admit, Limits
from kubewright.http.server import Server


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def server_tls(ca: trustme.CA) -> ssl.SSLContext:
    """A server named `127.0.0.1` and `kubernetes`, which accepts client certificates and requires none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1", "::1", "kubernetes").configure_cert(context)
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


@pytest.fixture
def client_tls(ca: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    return context


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[Server]]]:
    """A function that starts a server without TLS; all are closed at the end."""
    servers: list[Server] = []

    async def start(handler: Handler, limits: Limits | None = None, admit: Admit | None = None) -> Server:
        server = Server(handler, limits=limits, admit=admit)
        await server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.close()


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., HTTPClient]]:
    """A function that creates a client for a loopback port; all are closed at the end."""
    clients: list[HTTPClient] = []

    def make(port: int, **options: object) -> HTTPClient:
        scheme = "https" if "ssl" in options else "http"
        client = HTTPClient(f"{scheme}://127.0.0.1:{port}", **options)  # type: ignore[arg-type]
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.close()
