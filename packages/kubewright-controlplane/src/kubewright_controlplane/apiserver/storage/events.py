"""Entries, the events between them, and the history of one resource's events, with the cursors of its watches.

A cursor holds no events. Unread events wait in the history, once for all watches. A watch that falls behind the
history gets Gone, so a slow watch costs no memory.

Three limits bound a history: the age of its events (`store.HistoryExpiry`), their number, and the size of their
objects. The age is what keeps a server that is written to all the time small. The others bound a burst of writes.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Literal, TypeAlias

import msgspec

from kubewright.machinery.errors import Gone

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]

_SHARED = 256
"""The number of latest events that keep their frames, for watches that keep up."""
_FEWEST = 128
"""The number of latest events that are kept regardless of their size."""
_LARGEST = 16 << 20
"""The size in bytes above which older events are dropped, even if there are few."""
_WOKEN_AT_ONCE = 256
"""The number of cursors that are woken before others are served."""


class Entry(msgspec.Struct, eq=False, gc=False):
    """One stored object: its bytes, and the values that selectors match. Never changes.

    Python's garbage collector does not look at entries and events, so its pauses do not grow with their number. They
    never refer to themselves.
    """

    key: str
    """`namespace/name`, or the name alone."""
    revision: int
    data: bytes
    """The object as JSON in its storage version, with `kind` and `apiVersion` first, including its resourceVersion."""
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    """Values of the kind's own selectable fields, without metadata.name and metadata.namespace."""
    written: bytes | None = None
    """The bytes of the last write, if `data` differs because the definition of the kind has changed since."""

    @property
    def last_write(self) -> bytes:
        """The bytes of the last write."""
        return self.data if self.written is None else self.written

    @property
    def namespace(self) -> str:
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]


class Event(msgspec.Struct, eq=False, gc=False):
    """One commit. A DELETED event's entry is the object's last state with the revision of the deletion."""

    type: EventType
    resource: str
    revision: int
    entry: Entry
    previous: Entry | None
    frames: dict[object, bytes] = msgspec.field(default_factory=dict[object, bytes])
    """Frames encoded for watches, by representation. The first watch encodes one, and all others share it."""


Observer: TypeAlias = Callable[[Event], None]
"""Called synchronously after each commit of a resource, in order. It may write. What it raises is logged."""


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
        self._late: dict[Cursor, None] = {}
        """Cursors that are woken when others have been served."""

    def append(self, event: Event) -> None:
        """Add an event, and wake the cursors: if they are many, some after others have been served."""
        self.events.append(event)
        self.size += len(event.entry.data)
        if len(self.events) > _SHARED:
            self.events[-_SHARED - 1].frames.clear()
        if len(self.events) > self._length + self._length // 4:
            self._drop(len(self.events) - self._length)
        elif self.size > _LARGEST and len(self.events) > _FEWEST * 2:
            self._drop(len(self.events) // 4)
        key, position = event.entry.key, self.dropped + len(self.events) - 1
        due = [cursor for cursor in self.cursors if cursor.is_due(key, position)]
        if len(due) <= _WOKEN_AT_ONCE and not self._late:
            for cursor in due:
                cursor.wake()
            return
        if not self._late:
            asyncio.get_running_loop().call_soon(self._wake_some)
        self._late.update(dict.fromkeys(due))

    def _wake_some(self) -> None:
        """Wake the cursors that have waited longest: so many that others are not kept waiting."""
        for cursor in list(islice(self._late, _WOKEN_AT_ONCE)):
            del self._late[cursor]
            cursor.wake()
        if self._late:
            asyncio.get_running_loop().call_soon(self._wake_some)

    def compact(self, revision: int) -> None:
        """Drop events up to `revision`, and forget the state before it."""
        self.drop_until(revision)
        self.floor = max(self.floor, revision)

    def drop_until(self, revision: int) -> None:
        """Drop events up to `revision`. A resource without such events can still be watched from earlier revisions."""
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

    def take(self, most: int | None = None, most_bytes: int | None = None) -> list[Event]:
        """Return the events since the last call. Raises Gone if some of them were dropped.

        With limits, they are the first of them: at most `most` events, and about `most_bytes` bytes, counted before
        those under other prefixes are left out.
        """
        history = self._history
        start = self._position - history.dropped
        if start < 0:
            raise Gone(f"too old resource version: the watcher fell {-start} events behind what is kept")
        events = history.events[start:] if most is None else history.events[start : start + most]
        if most_bytes is not None and len(events) > 1:
            events = _up_to(events, most_bytes)
        self._position += len(events)
        if self._prefix:
            return [event for event in events if event.entry.key.startswith(self._prefix)]
        return events

    @property
    def is_behind(self) -> bool:
        """Whether there are events that have not been taken."""
        return self._position < self._history.dropped + len(self._history.events)

    async def wait(self) -> None:
        """Wait until there may be new events, until `wake` is called, or until the cursor is closed."""
        if self.closed:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def is_due(self, key: str, position: int) -> bool:
        """Return whether to wake the cursor after a commit under `key`, whose event has this position."""
        if self._waiter is None:
            return False
        if key.startswith(self._prefix):
            return True
        if self._position == position:  # otherwise a quiet watch would fall behind the events of other namespaces
            self._position += 1
        return False

    def wake(self) -> None:
        """End a pending `wait`."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Close the cursor. A pending `wait` ends."""
        self.closed = True
        self._history.cursors.discard(self)
        self.wake()


def _up_to(events: list[Event], size: int) -> list[Event]:
    """Return the first events, up to the one whose object exceeds a size in bytes of all together."""
    for place, event in enumerate(events, 1):
        size -= len(event.entry.data)
        if size < 0:
            return events[:place]
    return events
