"""Writes of this process to one kind, until the cache shows them or shows that they are lost.

An event of the same or a later version shows a write. A write is lost if the cache reaches a later version without it:
the server was restored from an older state, or another client undid the write while the watch was disconnected. No
event reports that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import takewhile
from typing import Any

import msgspec

from kubewright.cache._entry import Entry, ObjectKey
from kubewright.cache._store import Store


class Write(msgspec.Struct, eq=False):
    """The last write of one key. It wrote `document`, or deleted the object with `deleted_uid`."""

    key: ObjectKey
    number: int
    """The number of earlier writes."""
    version: int
    """The resource version after the write. The answer to a delete may have none, or the previous version."""
    document: bytes = b""
    deleted_uid: str = ""
    after: int = 0
    """The last known version before a write whose answer has no version. Any later version shows the write."""
    overdue: bool = False
    """Whether a read timed out waiting for this write."""

    @property
    def is_dated(self) -> bool:
        """Whether `version` is exactly the version of the write. Otherwise only a list shows that it is lost."""
        return not self.deleted_uid and not self.after

    def is_shown_by(self, held: Entry[Any] | None) -> bool:
        """Return whether a cache at `version` or later with this entry shows the write."""
        if self.after:
            return held is None or held.resource_version > self.after
        if not self.deleted_uid:
            return held is not None and held.resource_version >= self.version
        if held is None or held.uid != self.deleted_uid:
            return True
        return held.deleting and held.resource_version >= self.version


class OwnWrites:
    """The last write of each key, until the store shows it."""

    def __init__(self, store: Store[Any], namespaces: Sequence[str | None], lost: Callable[[Write], None]) -> None:
        """Track the writes to a store with a stream for each of `namespaces`. `lost` is called with each lost write."""
        self._store = store
        self._lost = lost
        self._pending: dict[ObjectKey, Write] = {}
        """The tracked writes, by number."""
        self.pending: Callable[[ObjectKey], Write | None] = self._pending.get
        """The last write of a key, if the store does not show it yet."""
        self._due: dict[str | None, list[tuple[int, int, Write]]] = {each: [] for each in namespaces}
        """Heaps ordered by version. Writes that the store has shown in the meantime are skipped."""
        self._count = 0

    @property
    def count(self) -> int:
        """The number of writes so far. A list that is requested now contains them, unless they are lost."""
        return self._count

    def wrote(self, key: ObjectKey, version: int, document: bytes = b"") -> None:
        """Note that the object under `key` was written, and is `document` at this resource version.

        Without a `document`, as for a write of `scale`, only the version is known.
        """
        self._note(Write(key, self._count, version, document))

    def deleted(self, key: ObjectKey, uid: str, version: int) -> None:
        """Note that the object with this uid was deleted. `version` is that of the answer, or 0."""
        earlier = self._pending.get(key)
        least = earlier.version if earlier is not None else 0
        self._note(Write(key, self._count, max(version, least), deleted_uid=uid))

    def changed(self, key: ObjectKey, after: int) -> None:
        """Note that the object under `key` was written after version `after`, as by a Pod's `binding`."""
        self._note(Write(key, self._count, after, after=after))

    def latest_version(self, key: ObjectKey) -> int:
        """Return the newest version of `key` that the store or a pending write has; 0 if there is none."""
        held, write = self._store.get(key), self._pending.get(key)
        return max(held.resource_version if held is not None else 0, write.version if write is not None else 0)

    def seen(self, key: ObjectKey) -> bool:
        """Return whether the store has seen the last write of `key`."""
        return key not in self._pending

    def unseen(self, key: ObjectKey | None, count: int) -> Iterator[Write]:
        """Yield the writes among the first `count` that the store has not seen, of `key` or of all keys."""
        if key is None:
            return takewhile(lambda write: write.number < count, self._pending.values())
        write = self._pending.get(key)
        return iter(() if write is None or write.number >= count else (write,))

    def happened(self, key: ObjectKey, version: int) -> None:
        """Note that the store contains an event of `key` with this version."""
        write = self._pending.get(key)
        if write is None or version < write.version:
            return
        if write.is_dated or write.is_shown_by(self._store.get(key)):
            del self._pending[key]

    def reached(self, namespace: str | None, version: int) -> None:
        """Note that the store contains all changes up to `version`, of one namespace or of all."""
        due = self._due[namespace]
        while due and due[0][0] <= version:
            write = heappop(due)[2]
            if self._pending.get(write.key) is write and self._is_decided(write):
                del self._pending[write.key]

    def listed(self, namespace: str | None, count: int, entries: Mapping[ObjectKey, Entry[Any]]) -> None:
        """Note that `entries` replace the content of the store. They were requested after `count` writes.

        If the store reports a change for a lost write, the write is not reported separately.
        """
        decided = [
            write
            for write in self._pending.values()
            if write.number < count and (namespace is None or write.key.namespace == namespace)
        ]
        for write in decided:
            del self._pending[write.key]
            held = entries.get(write.key)
            if not write.is_shown_by(held) and held is self._store.get(write.key):
                self._lost(write)
        self._due[namespace] = [each for each in self._due[namespace] if each[1] >= count]
        heapify(self._due[namespace])

    def _note(self, write: Write) -> None:
        self._count += 1
        self._pending.pop(write.key, None)
        if self._store.version_of(write.key.namespace) >= write.version:
            if self._is_decided(write):
                return
        else:
            namespace = write.key.namespace
            heappush(self._due[namespace if namespace in self._due else None], (write.version, write.number, write))
        self._pending[write.key] = write

    def _is_decided(self, write: Write) -> bool:
        """Return whether the store, which has all changes up to the write's version, shows the fate of the write.

        The event of a deletion may have a later version, so only a list shows that a deletion is lost.
        """
        shown = write.is_shown_by(self._store.get(write.key))
        if not shown and write.is_dated:
            self._lost(write)
        return shown or write.is_dated
