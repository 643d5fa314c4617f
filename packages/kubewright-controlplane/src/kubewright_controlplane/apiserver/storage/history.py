"""The latest events of one resource, and the cursors with which watches read them.

A cursor holds no events. Unread events wait in the history, once for all watches. A watch that falls behind the
history gets Gone, so a slow watch costs no memory.

Three limits bound a history: the age of its events (`HistoryExpiry`), their number, and the size of their objects. The
age is what keeps a server that is written to all the time small. The others bound a burst of writes.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from typing import Protocol

from kubewright._runtime.clock import Clock, Timer
from kubewright.machinery.errors import Gone
from kubewright_controlplane.apiserver.storage.events import Entry, Event

_SHARED = 256
"""The number of latest events that keep their frames, for watches that keep up."""
_FEWEST = 128
"""The number of latest events that are kept regardless of their size."""
_STEPS = 5
"""The number of times that expired events are dropped within their lifetime."""
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
        self.size = 0
        """The size in bytes of the objects in `events`."""
        self._length = length

    def append(self, event: Event) -> None:
        """Add an event, and wake the cursors."""
        self.events.append(event)
        self.size += len(event.entry.data)
        if len(self.events) > _SHARED:
            self.events[-_SHARED - 1].frames.clear()
        if len(self.events) > self._length + self._length // 4:
            self._drop(len(self.events) - self._length)
        elif self.size > _LARGEST and len(self.events) > _FEWEST * 2:
            self._drop(len(self.events) // 4)
        key, position = event.entry.key, self.dropped + len(self.events) - 1
        for cursor in self.cursors:
            cursor.offer(key, position)

    def compact(self, revision: int) -> None:
        """Drop events up to `revision`, and forget the state before it."""
        self.drop_until(revision)
        self.floor = max(self.floor, revision)

    def drop_until(self, revision: int) -> None:
        """Drop events up to `revision`. A resource without such events can still be read at earlier revisions."""
        self._drop(self.position_after(revision) - self.dropped)

    def _drop(self, count: int) -> None:
        if count:
            self.floor = max(self.floor, self.events[count - 1].revision)
            self.size -= sum(len(event.entry.data) for event in self.events[:count])
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

    def offer(self, key: str, position: int) -> None:
        """Called by the history after a commit under `key`, whose event has this position."""
        if self._waiter is None:
            return
        if key.startswith(self._prefix):
            self.wake()
        elif self._position == position:  # otherwise a quiet watch would fall behind the events of other namespaces
            self._position += 1

    def wake(self) -> None:
        """End a pending `wait`."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Close the cursor. A pending `wait` ends."""
        self.closed = True
        self._history.cursors.discard(self)
        self.wake()


class Histories(Protocol):
    """The histories of a store."""

    @property
    def revision(self) -> int: ...

    def drop_events(self, revision: int) -> None:
        """Drop the events up to `revision`, of all resources."""
        ...


class HistoryExpiry:
    """Drops events older than `seconds`, as kube-apiserver makes etcd do (--etcd-compaction-interval)."""

    def __init__(self, histories: Histories, seconds: float, clock: Clock) -> None:
        self._histories = histories
        self._seconds = seconds
        self._clock = clock
        self._marks: deque[tuple[float, int]] = deque()
        """Times, and the last revision at each."""
        self._timer: Timer | None = None

    def start(self) -> None:
        self._drop_expired()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _drop_expired(self) -> None:
        now = self._clock.monotonic()
        while self._marks and self._marks[0][0] <= now - self._seconds:
            self._histories.drop_events(self._marks.popleft()[1])
        self._marks.append((now, self._histories.revision))
        self._timer = self._clock.call_later(self._seconds / _STEPS, self._drop_expired)
