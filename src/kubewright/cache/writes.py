"""What this process has written of a kind, as long as its copy of the kind has not seen it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kubewright.cache.entry import ObjectKey
from kubewright.cache.store import Store

_MANY: Final = 1000
"""Writes that are remembered before those that have been seen in the meantime are cleared out."""


@dataclass(slots=True)
class _Write:
    """The last write of one key: seen at `version`, and once the object of `deleted_uid` is gone if it was a
    deletion.
    """

    version: int
    deleted_uid: str = ""
    overdue: bool = False
    """A read has waited for it in vain."""


class OwnWrites:
    """The last write of each key. A store that is at a write's resource version has seen it."""

    def __init__(self, store: Store[Any]) -> None:
        self._store = store
        self._writes: dict[ObjectKey, _Write] = {}

    def wrote(self, key: ObjectKey, version: int) -> None:
        """The object under `key` was written, and was then at this resource version."""
        self._note(key, _Write(version))

    def deleted(self, key: ObjectKey, uid: str, version: int) -> None:
        """The object of this uid under `key` was deleted; `version` is what the answer said, 0 if nothing."""
        earlier = self._writes.get(key)
        self._note(key, _Write(max(version, earlier.version if earlier else 0), uid))

    def seen(self, key: ObjectKey | None = None) -> bool:
        """Whether the store has seen the last write of `key`, or of every key."""
        if not self._writes:
            return True
        if key is None:
            self._forget_seen()
            return not self._writes
        write = self._writes.get(key)
        if write is None:
            return True
        if not self._has(key, write):
            return False
        del self._writes[key]
        return True

    def overdue(self, key: ObjectKey | None = None) -> bool:
        """Whether among the unseen writes of `key`, or of every key, is one that has been waited for in vain."""
        writes = self._writes.values() if key is None else filter(None, [self._writes.get(key)])
        return any(write.overdue for write in writes)

    def give_up(self, key: ObjectKey | None = None) -> None:
        """Remember that a read has waited in vain: the next ones need not."""
        for each, write in self._writes.items():
            if key is None or each == key:
                write.overdue = True

    def _note(self, key: ObjectKey, write: _Write) -> None:
        if len(self._writes) >= _MANY:
            self._forget_seen()
        if not self._has(key, write):
            self._writes[key] = write

    def _has(self, key: ObjectKey, write: _Write) -> bool:
        if self._store.version_of(key.namespace) < write.version:
            return False
        if not write.deleted_uid:
            return True
        entry = self._store.get(key)
        return entry is None or entry.uid != write.deleted_uid or entry.deleting

    def _forget_seen(self) -> None:
        self._writes = {key: write for key, write in self._writes.items() if not self._has(key, write)}
