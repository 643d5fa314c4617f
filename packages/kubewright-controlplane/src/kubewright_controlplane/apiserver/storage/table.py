"""The entries of one resource in key order, and their history."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from kubewright_controlplane.apiserver.storage.events import Entry, Event
from kubewright_controlplane.apiserver.storage.history import History


class Snapshot:
    """The entries of one resource at one revision, in key order. Valid until the next commit, because it copies only
    keys.
    """

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
    """Entries and history of one resource."""

    def __init__(self, history: History) -> None:
        self.entries: dict[str, Entry] = {}
        self.history = history
        self._keys: list[str] = []

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
        self.history.append(event)

    def snapshot(self, namespace: str, revision: int | None, after: str) -> Snapshot:
        undone = self.history.undone_since(revision) if revision is not None else {}
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
