"""Requests and responses, the same on both sides of a connection.

A `Handler` takes a request and returns its response. A server runs a handler behind a socket. The `send` method of a
client is also a handler. So a client can call a server's handler without a socket, and everything between them
(retries, faults, recording) is a handler that wraps another handler.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
"""Methods that have the same effect when sent twice (RFC 9110, 9.2.2)."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The client of a server's connection, as far as the connection proves it."""

    address: str = ""
    common_name: str = ""
    """CN of the verified client certificate; empty without one."""
    organizations: tuple[str, ...] = ()
    """O of the verified client certificate."""


@dataclass(slots=True)
class Request:
    """One request. Header names are in lower case; the values of a repeated header are joined by `, `."""

    method: str
    target: str
    """Path and query, percent-encoded: `/api/v1/pods?limit=5`."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    peer: Peer | None = None
    """Set only on the server's side."""
    fence: Callable[[], None] | None = None
    """Called each time that the request is about to be sent. If it raises, the request is not sent."""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    @property
    def upgrade(self) -> str:
        """The protocol that the client wants to change to, in lower case; empty if none."""
        return self.headers.get("upgrade", "").lower()


Body: TypeAlias = bytes | AsyncIterator[bytes]


class Tunnel(Protocol):
    """The bytes of a connection that has changed its protocol. Its user is cancelled when the connection ends."""

    async def read(self) -> bytes:
        """Return the data that has arrived, at least one byte."""
        ...

    async def write(self, data: bytes) -> None:
        """Send `data`, and wait while the peer does not read."""
        ...


@dataclass(slots=True)
class Response:
    """One response. A body of bytes is whole; an iterator is a stream of chunks.

    The receiver of a streaming response must read it to its end or call `aclose`.
    """

    status: int
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: Body = b""
    tunnel: Callable[[Tunnel], Awaitable[None]] | None = None
    """With status 101 on the server's side: speaks the new protocol. The connection closes when it returns."""

    @classmethod
    def plain(cls, status: int, text: str) -> Response:
        """Return a response of plain text."""
        return cls(status, {"content-type": "text/plain; charset=utf-8"}, text.encode())

    async def read(self) -> bytes:
        """Return the whole body."""
        if not isinstance(self.body, bytes):
            self.body = b"".join([chunk async for chunk in self.body])
        return self.body

    async def aclose(self) -> None:
        """Drop the rest of a streamed body, and close its connection. Does nothing for a whole body."""
        close = getattr(self.body, "aclose", None)
        if close is not None:
            await close()


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
