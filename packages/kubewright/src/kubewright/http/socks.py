"""Tunnels through a SOCKS5 proxy, as `ssh -D` opens one. The proxy resolves names.

Follows RFC 1928 (CONNECT alone) and RFC 1929 (user name and password).
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Final, cast

from kubewright.machinery.errors import ConnectionFailed

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
        self.transport.write(bytes([_VERSION, 1, 0]) + _address(host.strip("[]")) + int(port).to_bytes(2, "big"))
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


def _address(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode("idna")
        return bytes([3, len(name)]) + name
    return bytes([1 if address.version == 4 else 4]) + address.packed
