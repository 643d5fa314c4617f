"""A place in a resource's events, from which a watch reads on.

A cursor holds no events: those it has not read wait in the resource's history, once for all watchers. A watcher that
falls behind the history is told so (Gone), and so a slow one costs no memory.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kubewright.apiserver.storage.events import Event
from kubewright.machinery.errors import Gone

if TYPE_CHECKING:
    from kubewright.apiserver.storage.table import Table


class Cursor:
    """Reads the events of one resource in order, optionally of one namespace or one object. Close it when done."""

    def __init__(self, table: Table, position: int, prefix: str) -> None:
        self.closed = False
        self._table = table
        self._position = position
        self._prefix = prefix
        self._waiter: asyncio.Future[None] | None = None
        table.cursors.add(self)

    def take(self) -> list[Event]:
        """Events since the last take. Raises Gone when some of them are no longer kept."""
        table = self._table
        start = self._position - table.dropped
        if start < 0:
            raise Gone(f"too old resource version: the watcher fell {-start} events behind what is kept")
        events = table.events[start:]
        self._position += len(events)
        if self._prefix:
            return [event for event in events if event.entry.key.startswith(self._prefix)]
        return events

    async def wait(self) -> None:
        """Return when there may be events to take, when `wake` was called, or when the cursor is closed."""
        if self.closed:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def offer(self, key: str) -> None:
        """Told by the table of a commit under `key`."""
        if self._waiter is not None and key.startswith(self._prefix):
            self.wake()

    def wake(self) -> None:
        """End a `wait` in progress."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Take no more part. A `wait` in progress ends."""
        self.closed = True
        self._table.cursors.discard(self)
        self.wake()
