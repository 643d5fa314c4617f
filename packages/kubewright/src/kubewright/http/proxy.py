"""Tunnels through an HTTP proxy (CONNECT) or a SOCKS5 proxy, and the choice of a proxy for a server.

Follows RFC 9110 (9.3.6), and Go's net/http/httpproxy for what HTTPS_PROXY, HTTP_PROXY and NO_PROXY mean.
SOCKS5, as `ssh -D` opens it: RFC 1928 (CONNECT alone) and RFC 1929 (user name and password). The proxy resolves names.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
from collections.abc import Mapping
from typing import Final, cast
from urllib.parse import unquote, urlsplit

from kubewright.machinery.errors import ConfigError, ConnectionFailed

_HEAD_LIMIT = 16 << 10


_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


class Proxy:
    """A proxy at `url`: `scheme://[user:password@]host[:port]`. Raises ConfigError unless the scheme is `http`,
    `https` (TLS to the proxy, trusted as the system trusts), `socks5` and `socks5h` (the same to us).
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ConfigError(f"proxy {url!r} is not supported; use http://host:port, or https:// or socks5://")
        self.host = parts.hostname
        self.port = parts.port or _PORTS[parts.scheme]
        self._scheme = parts.scheme
        self._username = None if parts.username is None else unquote(parts.username)
        self._password = unquote(parts.password or "")

    async def tunnel(self, authority: str) -> asyncio.Transport:
        """Return a connection through the proxy to `authority` (`host:port`). The caller sets its protocol."""
        return await (self._socks(authority) if self._scheme.startswith("socks") else self._connect(authority))

    async def _socks(self, authority: str) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        transport, dialogue = await loop.create_connection(SocksDialogue, self.host, self.port)
        try:
            await dialogue.open(authority, self._username, self._password)
        except ConnectionFailed as error:
            transport.abort()
            raise ConnectionFailed(f"proxy {self.host}:{self.port} did not connect to {authority}: {error}") from error
        except BaseException:
            transport.abort()
            raise
        return transport

    async def _connect(self, authority: str) -> asyncio.Transport:
        loop, secure = asyncio.get_running_loop(), self._scheme == "https"
        transport, opening = await loop.create_connection(_Opening, self.host, self.port, ssl=secure or None)
        authorization = ""
        if self._username is not None:
            pair = base64.b64encode(f"{self._username}:{self._password}".encode()).decode()
            authorization = f"proxy-authorization: Basic {pair}\r\n"
        transport.write(f"CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n{authorization}\r\n".encode())
        try:
            status = await opening.answer
        except BaseException:
            transport.abort()
            raise
        if status.split(" ", 2)[1:2] != ["200"]:
            transport.abort()
            raise ConnectionFailed(f"proxy {self.host}:{self.port} refused to connect to {authority}: {status}")
        return transport


class _Opening(asyncio.Protocol):
    """Reads the head of the proxy's answer; `answer` is its first line."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, rest = self._data.partition(b"\r\n\r\n")
        if rest or len(self._data) > _HEAD_LIMIT:
            self._fail("the proxy's answer is not that of a tunnel")
        elif end and not self.answer.done():
            self._transport.pause_reading()  # until the caller has set the protocol
            self.answer.set_result(head.partition(b"\r\n")[0].decode("latin-1"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("the proxy closed the connection")

    def _fail(self, why: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(ConnectionFailed(why))


def proxy_for(url: str, environment: Mapping[str, str]) -> str | None:
    """Return the proxy for the server at `url` according to the environment, or None for a direct connection.

    Loopback addresses never need one. NO_PROXY lists hosts with their subdomains (`example.com`), subdomains alone
    (`.example.com`) and addresses, each with an optional port, networks (`10.0.0.0/8`), or `*` for everything.
    """
    parts = urlsplit(url)
    name = f"{parts.scheme}_proxy"
    proxy = environment.get(name.upper()) or environment.get(name)
    host = (parts.hostname or "").rstrip(".")
    if not proxy or host == "localhost":
        return None
    address = _address(host)
    if address is not None and address.is_loopback:
        return None
    port = parts.port or {"https": 443, "http": 80}[parts.scheme]
    exceptions = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    if any(_covers(entry.strip().lower(), host, port, address) for entry in exceptions.split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None  # other programs share the variable, and support more forms


def _covers(entry: str, host: str, port: int, address: _Address | None) -> bool:
    if not entry or entry == "*":
        return entry == "*"
    if "/" in entry:
        network = _network(entry)
        return address is not None and network is not None and address in network
    bare = entry.strip("[]")
    if _address(bare) is None:
        bare, _, wanted = entry.rpartition(":") if ":" in entry else (entry, "", "")
        bare = bare.strip("[]")
        if wanted and wanted != str(port):
            return False
    if address is not None:
        return _address(bare) == address
    return host == bare or host.endswith(f".{bare.lstrip('.')}")


_VERSION: Final = 5
_NO_AUTHENTICATION: Final = 0
_PASSWORD: Final = 2
_ADDRESS_SIZES: Final = {1: 4, 4: 16}
_REPLIES: Final = (
    "succeeded", "general failure", "not allowed by its rules", "network unreachable", "host unreachable",
    "connection refused", "time to live expired", "command not supported", "address type not supported",
)  # fmt: skip


class SocksDialogue(asyncio.Protocol):
    """The handshake with a SOCKS5 proxy, before the caller uses the connection."""

    def __init__(self) -> None:
        self._data = b""
        self._wanted = 0
        self._arrived: asyncio.Future[bytes] | None = None
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._look()

    async def open(self, authority: str, username: str | None, password: str) -> None:
        """Make the proxy connect to `authority` (`host:port`). Raises ConnectionFailed with the proxy's reason."""
        methods = bytes([_NO_AUTHENTICATION] if username is None else [_NO_AUTHENTICATION, _PASSWORD])
        self.transport.write(bytes([_VERSION, len(methods)]) + methods)
        version, method = await self._read(2)
        if version != _VERSION or method not in methods:
            raise ConnectionFailed("it is not a SOCKS5 proxy, or requires another user name and password")
        if method == _PASSWORD:
            user, secret = (username or "").encode(), password.encode()
            self.transport.write(bytes([1, len(user)]) + user + bytes([len(secret)]) + secret)
            _, status = await self._read(2)
            if status:
                raise ConnectionFailed("it rejects the user name and password")
        host, _, port = authority.rpartition(":")
        self.transport.write(bytes([_VERSION, 1, 0]) + _socks_address(host.strip("[]")) + int(port).to_bytes(2, "big"))
        _, reply, _, kind = await self._read(4)
        if reply:
            raise ConnectionFailed(_REPLIES[reply] if reply < len(_REPLIES) else f"reply {reply}")
        size = _ADDRESS_SIZES.get(kind) or (await self._read(1))[0]
        await self._read(size + 2)
        if self._data:
            raise ConnectionFailed("its answer is invalid")
        self.transport.pause_reading()  # until the caller has set the protocol

    async def _read(self, count: int) -> bytes:
        self._wanted, self._arrived = count, asyncio.get_running_loop().create_future()
        self._look()
        return await self._arrived

    def _look(self) -> None:
        waiter = self._arrived
        if waiter is None or waiter.done():
            return
        if len(self._data) >= self._wanted:
            found, self._data = self._data[: self._wanted], self._data[self._wanted :]
            waiter.set_result(found)
        elif self._lost:
            waiter.set_exception(ConnectionFailed("the proxy closed the connection"))


def _socks_address(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode("idna")
        return bytes([3, len(name)]) + name
    return bytes([1 if address.version == 4 else 4]) + address.packed
