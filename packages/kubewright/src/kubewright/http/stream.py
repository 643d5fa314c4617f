"""A pipe of bytes: written by synchronous code, read by one task, bounded.

Guarantees
    Data is read in the order in which it was written. A late reader gets all of it as one chunk, so many small writes
    cost one wake-up.
    A pipe never holds more than its limit. A write that does not fit breaks the pipe: its content is dropped, `write`
    returns False, and the reader gets `PipeBroken`, so that a loss never looks like the end.
    `on_abandon` is called once, when the reader stops before the end.

A watch uses a pipe: the store writes events and never waits for a slow client, and the connection reads them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from kubewright.machinery.errors import ConnectionFailed


class PipeBroken(ConnectionFailed):
    """The reader of a pipe was too slow, and data was lost."""


class Pipe(AsyncIterator[bytes]):
    """Body of a streamed message. `limit` is in bytes; None is for a writer that can pause when `size` grows."""

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
