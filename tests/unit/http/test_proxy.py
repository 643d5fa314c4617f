"""Tunnels through proxies, and the choice of a proxy."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from kubewright.http.client import HTTPClient
from kubewright.http.message import Request, Response
from kubewright.http.proxy import proxy_for
from kubewright.http.server import Server
from kubewright.machinery.errors import ConfigError, ConnectionFailed

GET = Request("GET", "/")


class ConnectProxy:
    """An HTTP proxy for CONNECT, which records its requests."""

    def __init__(self, answer: bytes) -> None:
        self.heads: list[bytes] = []
        self._answer = answer
        self._pumps: list[asyncio.Task[None]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        writer.write(self._answer)
        if b" 200 " not in self._answer:
            writer.close()
            return
        host, _, port = head.split()[1].decode().rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            sink.write(data)
        sink.close()


async def start(answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> tuple[ConnectProxy, int]:
    proxy = ConnectProxy(answer)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    return proxy, server.sockets[0].getsockname()[1]


async def hello(request: Request) -> Response:
    return Response(200, {}, b"through")


@pytest.fixture
async def secure(server_tls: ssl.SSLContext) -> AsyncIterator[Server]:
    server = Server(hello, ssl=server_tls)
    await server.start()
    yield server
    await server.close()


async def test_tls_goes_through_the_tunnel_end_to_end(secure: Server, client_tls: ssl.SSLContext) -> None:
    proxy, port = await start()
    client = HTTPClient(f"https://127.0.0.1:{secure.port}", ssl=client_tls, proxy=f"http://me:p%40ss@127.0.0.1:{port}")
    for _ in range(2):
        assert (await client.send(GET)).body == b"through"
    (head,) = proxy.heads
    assert head.startswith(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n" % secure.port)
    assert b"proxy-authorization: Basic " + base64.b64encode(b"me:p@ss") + b"\r\n" in head
    await client.close()


async def test_plain_http_goes_through_the_tunnel_too() -> None:
    server = Server(hello)
    await server.start()
    _, port = await start()
    client = HTTPClient(f"http://127.0.0.1:{server.port}", proxy=f"http://127.0.0.1:{port}")
    assert (await client.send(GET)).body == b"through"
    await client.close()
    await server.close()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407 Proxy Authentication Required"),
        (b"", "proxy closed the connection"),
        (b"HTTP/1.1 200 OK\r\n\r\nsurprise", "not that of a tunnel"),
    ],
)
async def test_the_error_names_a_proxy_that_refuses(
    secure: Server, client_tls: ssl.SSLContext, answer: bytes, why: str
) -> None:
    _, port = await start(answer)
    client = HTTPClient(f"https://127.0.0.1:{secure.port}", ssl=client_tls, proxy=f"http://127.0.0.1:{port}")
    with pytest.raises(ConnectionFailed, match=rf"{secure.port} through proxy 127.0.0.1:{port}: .*{why}"):
        await client.send(GET)
    await client.close()


class SocksProxy:
    """A SOCKS5 proxy, like `ssh -D`, with an optional password; it records the addresses it connected to."""

    def __init__(self, *, password: bytes = b"", reply: int = 0) -> None:
        self.authorities: list[str] = []
        self._password = password
        self._reply = reply

    async def start(self) -> int:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        method = 2 if self._password else 0
        writer.write(bytes([5, method if method in methods else 255]))
        if self._password and 2 in methods:
            _, size = await reader.readexactly(2)
            await reader.readexactly(size)
            (size,) = await reader.readexactly(1)
            writer.write(bytes([1, await reader.readexactly(size) != self._password]))
        try:
            _, _, _, kind = await reader.readexactly(4)
        except asyncio.IncompleteReadError:
            return
        if kind == 3:
            (size,) = await reader.readexactly(1)
            host = (await reader.readexactly(size)).decode()
        else:
            host = str(ipaddress.ip_address(await reader.readexactly(4 if kind == 1 else 16)))
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.authorities.append(f"{host}:{port}")
        writer.write(bytes([5, self._reply, 0, 3, 4]) + b"host" + b"\0\0")
        if self._reply:
            writer.close()
            return
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            sink.write(data)
        sink.close()


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
async def test_tls_goes_through_socks_and_the_proxy_resolves_names(
    secure: Server, client_tls: ssl.SSLContext, scheme: str
) -> None:
    proxy = SocksProxy()
    url = f"https://api.in-there.example:{secure.port}"
    client = HTTPClient(
        url, ssl=client_tls, server_name="127.0.0.1", proxy=f"{scheme}://127.0.0.1:{await proxy.start()}"
    )
    for _ in range(2):
        assert (await client.send(GET)).body == b"through"
    assert proxy.authorities == [f"api.in-there.example:{secure.port}"]
    await client.close()


async def test_socks_gets_addresses_user_name_and_password(secure: Server, client_tls: ssl.SSLContext) -> None:
    proxy = SocksProxy(password=b"p@ss")
    port = await proxy.start()
    client = HTTPClient(
        f"https://127.0.0.1:{secure.port}", ssl=client_tls, proxy=f"socks5://me:p%40ss@127.0.0.1:{port}"
    )
    assert (await client.send(GET)).body == b"through"
    assert proxy.authorities == [f"127.0.0.1:{secure.port}"]
    await client.close()


@pytest.mark.parametrize(
    ("proxy", "user", "why"),
    [
        (SocksProxy(reply=5), "", "connection refused"),
        (SocksProxy(reply=99), "", "reply 99"),
        (SocksProxy(password=b"x"), "", "requires another user name and password"),
        (SocksProxy(password=b"x"), "me:y@", "rejects the user name and password"),
    ],
)
async def test_the_reason_of_a_socks_proxy_is_in_the_error(
    secure: Server, client_tls: ssl.SSLContext, proxy: SocksProxy, user: str, why: str
) -> None:
    port = await proxy.start()
    client = HTTPClient(f"https://127.0.0.1:{secure.port}", ssl=client_tls, proxy=f"socks5://{user}127.0.0.1:{port}")
    with pytest.raises(ConnectionFailed, match=rf"proxy 127.0.0.1:{port} did not connect to .*: .*{why}"):
        await client.send(GET)
    await client.close()


async def test_the_error_names_a_socks_proxy_that_disconnects(secure: Server, client_tls: ssl.SSLContext) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = HTTPClient(f"https://127.0.0.1:{secure.port}", ssl=client_tls, proxy=f"socks5://127.0.0.1:{port}")
    with pytest.raises(ConnectionFailed, match="the proxy closed the connection"):
        await client.send(GET)
    await client.close()


async def test_the_connection_to_the_proxy_may_use_tls(
    secure: Server,
    ca: trustme.CA,
    server_tls: ssl.SSLContext,
    client_tls: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    ca.cert_pem.write_to_path(str(tmp_path / "system.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.pem"))
    proxy = ConnectProxy(b"HTTP/1.1 200 Connection established\r\n\r\n")
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=server_tls)
    port = server.sockets[0].getsockname()[1]
    client = HTTPClient(f"https://127.0.0.1:{secure.port}", ssl=client_tls, proxy=f"https://127.0.0.1:{port}")
    assert (await client.send(GET)).body == b"through"
    await client.close()


@pytest.mark.parametrize("url", ["socks4://x:1", "ftp://x:1", "x:1"])
def test_another_kind_of_proxy_is_rejected(url: str) -> None:
    with pytest.raises(ConfigError, match="is not supported; use http://host:port"):
        HTTPClient("http://127.0.0.1", proxy=url)


@pytest.mark.parametrize(
    ("server", "exceptions", "goes_through"),
    [
        ("https://api.example.com", "", True),
        ("https://localhost:6443", "", False),
        ("https://127.0.0.1:6443", "", False),
        ("https://[::1]:6443", "", False),
        ("https://api.example.com", "*", False),
        ("https://api.example.com", "example.com", False),
        ("https://example.com", "example.com", False),
        ("https://api.example.com", ".example.com", False),
        ("https://example.com", ".example.com", True),
        ("https://badexample.com", "example.com", True),
        ("https://api.example.com", "EXAMPLE.com, other.org", False),
        ("https://api.example.com:8443", "api.example.com:443", True),
        ("https://api.example.com", "api.example.com:443", False),
        ("https://10.1.2.3", "10.0.0.0/8", False),
        ("https://11.1.2.3", "10.0.0.0/8", True),
        ("https://10.1.2.3", "10.1.2.3", False),
        ("https://10.1.2.3:1", "10.1.2.3:2", True),
        ("https://[fd00::1]:1", "[fd00::1]:1", False),
        ("https://[fd00::1]", "fd00::1", False),
        ("https://[fd00::1]", "fd00::/8", False),
        ("https://10.1.2.3", "not/a-network", True),
    ],
)
def test_no_proxy_is_read_as_by_other_programs(server: str, exceptions: str, goes_through: bool) -> None:
    environment = {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": exceptions}
    assert proxy_for(server, environment) == ("http://proxy:3128" if goes_through else None)


def test_each_scheme_has_a_variable_of_its_own_in_either_case() -> None:
    environment = {"https_proxy": "proxy:1", "HTTP_PROXY": "http://proxy:2"}
    assert proxy_for("https://x", environment) == "http://proxy:1"
    assert proxy_for("http://x", environment) == "http://proxy:2"
    assert proxy_for("https://x", {}) is None
