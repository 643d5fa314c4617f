"""The latest events of one resource, and the places in them from which watches read on.

A cursor holds no events: those it has not read wait in the history, once for all watchers. A watcher that falls behind
the history is told so (Gone), and so a slow one costs no memory.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right

from kubewright.machinery.errors import Gone
from kubewright_controlplane.apiserver.storage.events import Entry, Event

_SHARED = 256
"""How many of the latest events keep the frames made of them: watchers that keep up share those."""
_FEWEST = 128
"""How many of the latest events are kept however large they are."""
_LARGEST = 16 << 20
"""Bytes of events beyond which the earlier ones go, before there are too many of them."""


class History:
    """Events of one resource in order, `length` of them or a few more, and fewer where they are large."""

    def __init__(self, length: int, floor: int) -> None:
        self.cursors: set[Cursor] = set()
        self.floor = floor
        """Events of revisions above it are all here; of it and below, none need be."""
        self.dropped = 0
        """How many events have left `events` at its front: position of its first one."""
        self.events: list[Event] = []
        self._length = length
        self._size = 0
        """Bytes of the objects in `events`."""

    def append(self, event: Event) -> None:
        """Keep an event, and tell the cursors that it has come."""
        self.events.append(event)
        self._size += len(event.entry.data)
        if len(self.events) > _SHARED:
            self.events[-_SHARED - 1].frames.clear()
        if len(self.events) > self._length + self._length // 4:
            self._drop(len(self.events) - self._length)
        elif self._size > _LARGEST and len(self.events) > _FEWEST * 2:
            self._drop(len(self.events) // 4)
        key = event.entry.key
        for cursor in self.cursors:
            cursor.offer(key)

    def compact(self, revision: int) -> None:
        """Forget events up to `revision`."""
        self._drop(self.position_after(revision) - self.dropped)
        self.floor = max(self.floor, revision)

    def _drop(self, count: int) -> None:
        if count:
            self.floor = max(self.floor, self.events[count - 1].revision)
            self._size -= sum(len(event.entry.data) for event in self.events[:count])
            del self.events[:count]
            self.dropped += count

    def position_after(self, revision: int) -> int:
        """Where the first event above `revision` is, or will be."""
        return self.dropped + bisect_right(self.events, revision, key=lambda event: event.revision)

    def undone_since(self, revision: int) -> dict[str, Entry | None]:
        """What the keys written since `revision` held then; None: nothing. Raises Gone when that is forgotten."""
        if revision < self.floor:
            raise Gone("The provided resource version is too old.")
        undone: dict[str, Entry | None] = {}
        for event in reversed(self.events):
            if event.revision <= revision:
                break
            undone[event.entry.key] = event.previous
        return undone


class Cursor:
    """Reads the events of one resource in order, optionally of one namespace or one object. Close it when done."""

    def __init__(self, history: History, position: int, prefix: str) -> None:
        self.closed = False
        self._history = history
        self._position = position
        self._prefix = prefix
        self._waiter: asyncio.Future[None] | None = None
        history.cursors.add(self)

    def take(self) -> list[Event]:
        """Events since the last take. Raises Gone when some of them are no longer kept."""
        history = self._history
        start = self._position - history.dropped
        if start < 0:
            raise Gone(f"too old resource version: the watcher fell {-start} events behind what is kept")
        events = history.events[start:]
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
        """Told by the history of a commit under `key`."""
        if self._waiter is not None and key.startswith(self._prefix):
            self.wake()

    def wake(self) -> None:
        """End a `wait` in progress."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Take no more part. A `wait` in progress ends."""
        self.closed = True
        self._history.cursors.discard(self)
        self.wake()
