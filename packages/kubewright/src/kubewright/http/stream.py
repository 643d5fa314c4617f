"""A pipe of bytes: written by synchronous code, read by one task, bounded.

Guarantees
    What is written is read, in order. A reader that comes late gets what has gathered as one chunk, so a flood of
    small writes costs one wake-up.
    A pipe never holds more than its limit. A write that does not fit breaks the pipe: what it held is let go, the
    writer is told, and the reader gets `PipeBroken`, so that what is lost never looks like an end.
    `on_abandon` is called once, when the reader gives up before the end.

A watch is one: the store's side writes events and never waits for a slow client; the connection's side reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from kubewright.machinery.errors import ConnectionFailed


class PipeBroken(ConnectionFailed):
    """The reader of a pipe was too slow, and what it had not read is lost."""


class Pipe(AsyncIterator[bytes]):
    """Body of a streamed message. `limit` is in bytes; None is for a writer that can be told to wait (`size`)."""

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
        """Add `data`. False when the pipe is closed or has just been broken by this write: stop writing."""
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
        """End the stream: the reader gets what is left, then `error`, or the end."""
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
        """Give up reading. What was not read is let go, and the writer is told unless it had ended the stream."""
        self._chunks.clear()
        self.size = 0
        if not self._closed:
            self.close()
            if self._on_abandon is not None:
                self._on_abandon()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
