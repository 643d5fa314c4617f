"""The latest events of one resource, and the cursors with which watches read them.

A cursor holds no events. Unread events wait in the history, once for all watches. A watch that falls behind the
history gets Gone, so a slow watch costs no memory.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right

from kubewright.machinery.errors import Gone
from kubewright_controlplane.apiserver.storage.events import Entry, Event

_SHARED = 256
"""The number of latest events that keep their frames, for watches that keep up."""
_FEWEST = 128
"""The number of latest events that are kept regardless of their size."""
_LARGEST = 16 << 20
"""The size in bytes above which older events are dropped, even if there are few."""


class History:
    """The events of one resource in order: about `length` of them, or fewer if they are large."""

    def __init__(self, length: int, floor: int) -> None:
        self.cursors: set[Cursor] = set()
        self.floor = floor
        """All events with higher revisions are here. Events up to this revision may be missing."""
        self.dropped = 0
        """The number of dropped events, which is also the position of the first one in `events`."""
        self.events: list[Event] = []
        self._length = length
        self._size = 0
        """The size in bytes of the objects in `events`."""

    def append(self, event: Event) -> None:
        """Add an event, and wake the cursors."""
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
        """Drop events up to `revision`."""
        self._drop(self.position_after(revision) - self.dropped)
        self.floor = max(self.floor, revision)

    def _drop(self, count: int) -> None:
        if count:
            self.floor = max(self.floor, self.events[count - 1].revision)
            self._size -= sum(len(event.entry.data) for event in self.events[:count])
            del self.events[:count]
            self.dropped += count

    def position_after(self, revision: int) -> int:
        """Return the position of the first event above `revision`, which may be in the future."""
        return self.dropped + bisect_right(self.events, revision, key=lambda event: event.revision)

    def undone_since(self, revision: int) -> dict[str, Entry | None]:
        """Return the earlier entries of keys written since `revision`; None for new keys. Raises Gone if events were
        dropped.
        """
        if revision < self.floor:
            raise Gone("The provided resource version is too old.")
        undone: dict[str, Entry | None] = {}
        for event in reversed(self.events):
            if event.revision <= revision:
                break
            undone[event.entry.key] = event.previous
        return undone


class Cursor:
    """Reads the events of one resource in order, optionally of one namespace or one object. Must be closed."""

    def __init__(self, history: History, position: int, prefix: str) -> None:
        self.closed = False
        self._history = history
        self._position = position
        self._prefix = prefix
        self._waiter: asyncio.Future[None] | None = None
        history.cursors.add(self)

    def take(self) -> list[Event]:
        """Return the events since the last call. Raises Gone if some of them were dropped."""
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
        """Wait until there may be new events, until `wake` is called, or until the cursor is closed."""
        if self.closed:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def offer(self, key: str) -> None:
        """Called by the history after a commit under `key`."""
        if self._waiter is not None and key.startswith(self._prefix):
            self.wake()

    def wake(self) -> None:
        """End a pending `wait`."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Close the cursor. A pending `wait` ends."""
        self.closed = True
        self._history.cursors.discard(self)
        self.wake()
