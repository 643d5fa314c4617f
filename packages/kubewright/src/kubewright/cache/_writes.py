"""What this process has written of a kind, until its copy of the kind shows it, or shows that it is lost.

An event of the same or a later version shows a write. A write is lost if the copy reaches a later version without it:
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
    """The last write of one key: it made `document`, or deleted the object of `deleted_uid`."""

    key: ObjectKey
    number: int
    """How many writes there were before."""
    version: int
    """Of the object after the write. The answer to a deletion may have none, or the one from before it."""
    document: bytes = b""
    deleted_uid: str = ""
    overdue: bool = False
    """A read timed out waiting for this write."""

    def is_shown_by(self, held: Entry[Any] | None) -> bool:
        """Return whether a copy that is at `version` or later, and holds this, shows the write."""
        if not self.deleted_uid:
            return held is not None and held.resource_version >= self.version
        if held is None or held.uid != self.deleted_uid:
            return True
        return held.deleting and held.resource_version >= self.version


class OwnWrites:
    """The last write of each key, as long as the store does not show it."""

    def __init__(self, store: Store[Any], namespaces: Sequence[str | None], lost: Callable[[Write], None]) -> None:
        """Track the writes to a store whose `namespaces` have a stream each. `lost` is called with each lost write."""
        self._store = store
        self._lost = lost
        self._pending: dict[ObjectKey, Write] = {}
        """In the order of their numbers."""
        self.pending: Callable[[ObjectKey], Write | None] = self._pending.get
        """The last write of a key, if the store does not show it yet."""
        self._due: dict[str | None, list[tuple[int, int, Write]]] = {each: [] for each in namespaces}
        """Heaps in the order of versions; what has been shown in the meantime is passed over."""
        self._count = 0

    @property
    def count(self) -> int:
        """How many there were: a list that is asked for now has them in it, if they are not lost."""
        return self._count

    def wrote(self, key: ObjectKey, version: int, document: bytes = b"") -> None:
        """Note that the object under `key` was written, and is `document` at this resource version.

        Without a `document`, as for a write of `scale`, only the version is known.
        """
        self._note(Write(key, self._count, version, document))

    def deleted(self, key: ObjectKey, uid: str, version: int) -> None:
        """The object of this uid under `key` was deleted; `version` is what the answer said, 0 if nothing."""
        earlier = self._pending.get(key)
        least = earlier.version if earlier is not None else 0
        self._note(Write(key, self._count, max(version, least), deleted_uid=uid))

    def seen(self, key: ObjectKey) -> bool:
        """Return whether the store has seen the last write of `key`."""
        return key not in self._pending

    def unseen(self, key: ObjectKey | None, count: int) -> Iterator[Write]:
        """Of the first `count` writes those of `key`, or of any key, that the store has not seen."""
        if key is None:
            return takewhile(lambda write: write.number < count, self._pending.values())
        write = self._pending.get(key)
        return iter(() if write is None or write.number >= count else (write,))

    def happened(self, key: ObjectKey, version: int) -> None:
        """The store has taken in an event of `key`, of this version."""
        write = self._pending.get(key)
        if write is None or version < write.version:
            return
        if not write.deleted_uid or write.is_shown_by(self._store.get(key)):
            del self._pending[key]

    def reached(self, namespace: str | None, version: int) -> None:
        """The store has everything up to `version` of a namespace with a stream of its own, or of all."""
        due = self._due[namespace]
        while due and due[0][0] <= version:
            write = heappop(due)[2]
            if self._pending.get(write.key) is write and self._is_decided(write):
                del self._pending[write.key]

    def listed(self, namespace: str | None, count: int, entries: Mapping[ObjectKey, Entry[Any]]) -> None:
        """`entries` are about to replace what the store holds; they were asked for when there were `count` writes.

        Of a write that is lost the store's change tells, where it has one.
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
        """Return whether the store, which has everything up to the write's version, says what happened to it.

        A deletion may come after its version: that one is lost, only a list can tell.
        """
        shown = write.is_shown_by(self._store.get(write.key))
        if not shown and not write.deleted_uid:
            self._lost(write)
        return shown or not write.deleted_uid
