"""Requests and responses, the same on both sides of a connection.

A `Handler` takes a request and gives its response. A server runs one behind a socket; a client *is* one, in front of
a socket. So a client can be handed a server's handler and no socket is needed, and whatever stands between the two
(retries, faults, recording) is a handler around a handler.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
"""Methods that do no more when sent twice than when sent once (RFC 9110, 9.2.2)."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end of a server's connection, as far as the connection itself proves it."""

    address: str = ""
    common_name: str = ""
    """CN of the verified client certificate; empty without one."""
    organizations: tuple[str, ...] = ()
    """O of the verified client certificate."""


@dataclass(slots=True)
class Request:
    """One request. Header names are in lower case; a header that came twice has its values joined by `, `."""

    method: str
    target: str
    """Path and query as they stand on the wire, percent-encoded: `/api/v1/pods?limit=5`."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    peer: Peer | None = None
    """Set on the server's side only."""
    fence: Callable[[], None] | None = None
    """Called when the request is about to leave, each time that it is sent; what it raises keeps it here."""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    @property
    def upgrade(self) -> str:
        """The protocol that the client wants to go on with, in lower case; empty when it wants none."""
        return self.headers.get("upgrade", "").lower()


Body: TypeAlias = bytes | AsyncIterator[bytes]


class Tunnel(Protocol):
    """The bytes of a connection that has changed its protocol. Whoever speaks on it is cancelled when it ends."""

    async def read(self) -> bytes:
        """What has come, at least a byte of it."""
        ...

    async def write(self, data: bytes) -> None:
        """Send, and wait for a peer that does not read."""
        ...


@dataclass(slots=True)
class Response:
    """One response. A body of bytes is whole; an iterator is a stream, sent and received as it comes.

    Whoever is handed a streaming response reads it to its end or calls `aclose`.
    """

    status: int
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: Body = b""
    tunnel: Callable[[Tunnel], Awaitable[None]] | None = None
    """With status 101 of a server: what speaks the protocol that the connection changes to. It closes with that."""

    @classmethod
    def plain(cls, status: int, text: str) -> Response:
        """A response of plain text."""
        return cls(status, {"content-type": "text/plain; charset=utf-8"}, text.encode())

    async def read(self) -> bytes:
        """The whole body."""
        if not isinstance(self.body, bytes):
            self.body = b"".join([chunk async for chunk in self.body])
        return self.body

    async def aclose(self) -> None:
        """Give up what is left of a streamed body, and the connection with it. Harmless when there is none."""
        close = getattr(self.body, "aclose", None)
        if close is not None:
            await close()


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
