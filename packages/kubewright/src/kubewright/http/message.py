"""Requests, responses and streamed bodies, the same on both sides of a connection.

A `Handler` takes a request and returns its response. A server runs a handler behind a socket. The `send` method of a
client is also a handler. So a client can call a server's handler without a socket, and everything between them
(retries, faults, recording) is a handler that wraps another handler.

The body of a streamed message is a `Pipe`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeAlias

import msgspec

from kubewright.machinery.errors import ConnectionFailed

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
"""Methods that have the same effect when sent twice (RFC 9110, 9.2.2)."""


class Peer(msgspec.Struct, frozen=True):
    """The client of a server's connection, as far as the connection proves it."""

    address: str = ""
    common_name: str = ""
    """CN of the verified client certificate; empty without one."""
    organizations: tuple[str, ...] = ()
    """O of the verified client certificate."""


class Request(msgspec.Struct):
    """One request. Header names are in lower case; the values of a repeated header are joined by `, `."""

    method: str
    target: str
    """Path and query, percent-encoded: `/api/v1/pods?limit=5`."""
    headers: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    body: bytes = b""
    peer: Peer | None = None
    """Set only on the server's side."""
    fence: Callable[[], None] | None = None
    """Called each time that the request is about to be sent. If it raises, the request is not sent."""

    authenticated: bool = False
    """Set by a server's handler that has authenticated the client. Connections of other clients are closed first when
    there are too many.
    """

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

    @property
    def is_repeatable(self) -> bool:
        """Whether the request has the same effect when sent twice. A command that is run by an upgrade has not."""
        return self.method in IDEMPOTENT and "upgrade" not in self.headers


Body: TypeAlias = bytes | AsyncIterator[bytes]


class Tunnel(Protocol):
    """The bytes of a connection that has changed its protocol. Its user is cancelled when the connection ends."""

    async def read(self) -> bytes:
        """Return the data that has arrived, at least one byte."""
        ...

    async def write(self, data: bytes) -> None:
        """Send `data`, and wait while the peer does not read. Raises ConnectionFailed if the peer has left."""
        ...


class Response(msgspec.Struct):
    """One response. A body of bytes is whole; an iterator is a stream of chunks.

    The receiver of a streaming response must read it to its end or call `aclose`.
    """

    status: int
    headers: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    body: Body = b""
    tunnel: Callable[[Tunnel], Awaitable[None]] | None = None
    """With status 101 on the server's side: speaks the new protocol. The connection closes when it returns."""
    write: Callable[[bytes], Awaitable[None]] | None = None
    """With status 101 on the client's side: sends bytes of the new protocol. The body has those of the server."""

    @classmethod
    def plain(cls, status: int, text: str) -> Response:
        """Return a response of plain text."""
        return cls(status, {"content-type": "text/plain; charset=utf-8"}, text.encode(errors="replace"))

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


class PipeBroken(ConnectionFailed):
    """The reader of a pipe was too slow, and data was lost."""


class Pipe(AsyncIterator[bytes]):
    """The body of a streamed message: written by synchronous code, read by one task, bounded.

    `limit` is in bytes; None is for a writer that can pause when `size` grows.

    Guarantees
        Data is read in the order in which it was written. A late reader gets all of it as one chunk, so many small
        writes cost one wake-up.
        A pipe never holds more than its limit. A write that does not fit breaks the pipe: its content is dropped,
        `write` returns False, and the reader gets `PipeBroken`, so that a loss never looks like the end.
        `on_abandon` is called once, when the reader stops before the end.

    A watch uses a pipe: the store writes events and never waits for a slow client, and the connection reads them.
    """

    __slots__ = ("_chunks", "_closed", "_error", "_limit", "_on_abandon", "_on_take", "_waiter", "size")

    def __init__(
        self,
        limit: int | None = None,
        *,
        on_take: Callable[[], None] | None = None,
        on_abandon: Callable[[], None] | None = None,
    ) -> None:
        self.size = 0
        """Bytes written and not yet read."""
        self._limit = limit
        self._on_take = on_take
        self._on_abandon = on_abandon
        self._chunks: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False
        self._error: Exception | None = None

    def write(self, data: bytes) -> bool:
        """Add `data`. Returns False if the pipe is closed, or was broken by this write: then stop writing."""
        if self._closed:
            return False
        self.size += len(data)
        if self._limit is not None and self.size > self._limit:
            self._chunks.clear()
            self.size = 0
            self.close(PipeBroken(f"the reader of a stream fell more than {self._limit} bytes behind"))
            return False
        self._chunks.append(data)
        self._wake()
        return True

    def close(self, error: Exception | None = None) -> None:
        """End the stream: the reader gets the remaining data, then `error` or the end."""
        if not self._closed:
            self._closed = True
            self._error = error
            self._wake()

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return self._closed

    async def __anext__(self) -> bytes:
        while not self._chunks:
            if self._closed:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self.size = 0
        if self._on_take is not None:
            self._on_take()
        return data

    async def aclose(self) -> None:
        """Stop reading. Drops the remaining data, and calls `on_abandon` if the stream has not ended."""
        self._chunks.clear()
        self.size = 0
        if not self._closed:
            self.close()
            if self._on_abandon is not None:
                self._on_abandon()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
