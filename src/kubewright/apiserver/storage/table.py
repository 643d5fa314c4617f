"""One resource's share of a store: its entries in key order, its latest events, and who waits for more."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from kubewright.apiserver.storage.cursor import Cursor
from kubewright.apiserver.storage.events import Entry, Event
from kubewright.machinery.errors import Gone

_SHARED = 256
"""How many of the latest events keep the frames made of them: watchers that keep up share those."""
_FEWEST = 128
"""How many of the latest events are kept however large they are."""
_LARGEST = 16 << 20
"""Bytes of events beyond which the earlier ones go, before there are too many of them."""


class Snapshot:
    """Entries of one resource at one revision, in key order. Use it before the next commit: it copies keys only."""

    def __init__(self, keys: list[str], entries: dict[str, Entry], undone: dict[str, Entry | None]) -> None:
        self._keys = keys
        self._entries = entries
        self._undone = undone

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Entry]:
        if not self._undone:
            return map(self._entries.__getitem__, self._keys)
        return (self._undone.get(key) or self._entries[key] for key in self._keys)


class Table:
    """Entries, events and cursors of one resource."""

    def __init__(self, history: int, floor: int) -> None:
        self.entries: dict[str, Entry] = {}
        self.cursors: set[Cursor] = set()
        self.floor = floor
        """Events of revisions above it are all here; of it and below, none need be."""
        self.dropped = 0
        """How many events have left `events` at its front: position of its first one."""
        self.events: list[Event] = []
        self._keys: list[str] = []
        self._history = history
        self._size = 0
        """Bytes of the objects in `events`."""

    def restore(self, entries: dict[str, Entry]) -> None:
        self.entries = entries
        self._keys = sorted(entries)

    def commit(self, event: Event) -> None:
        key = event.entry.key
        if event.type == "DELETED":
            del self.entries[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            if event.type == "ADDED":
                insort(self._keys, key)
            self.entries[key] = event.entry
        self.events.append(event)
        self._size += len(event.entry.data)
        if len(self.events) > _SHARED:
            self.events[-_SHARED - 1].frames.clear()
        if len(self.events) > self._history + self._history // 4:
            self._drop(len(self.events) - self._history)
        elif self._size > _LARGEST and len(self.events) > _FEWEST * 2:
            self._drop(len(self.events) // 4)
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

    def snapshot(self, namespace: str, revision: int | None, after: str) -> Snapshot:
        undone = self._undone_since(revision) if revision is not None else {}
        keys = self._keys
        if undone:
            added = {key for key, entry in undone.items() if entry is None}
            keys = sorted({*keys, *undone} - added)
        low = bisect_right(keys, after) if after else 0
        high = len(keys)
        if namespace:
            low = max(low, bisect_left(keys, namespace + "/"))
            high = bisect_left(keys, namespace + "0")  # "0" is the character after "/"
        return Snapshot(keys[low:high], self.entries, undone)

    def _undone_since(self, revision: int) -> dict[str, Entry | None]:
        """What the keys written since `revision` held then; None: nothing."""
        if revision < self.floor:
            raise Gone("The provided resource version is too old.")
        undone: dict[str, Entry | None] = {}
        for event in reversed(self.events):
            if event.revision <= revision:
                break
            undone[event.entry.key] = event.previous
        return undone
