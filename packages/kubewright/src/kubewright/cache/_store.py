"""The objects of one kind in memory, found by key, namespace, owner, labels and by the values of index functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from kubewright._runtime.log import get_logger
from kubewright.cache._entry import Entry, ObjectKey
from kubewright.machinery.errors import DecodeError
from kubewright.machinery.selectors import Selector
from kubewright.models import Object

T = TypeVar("T", bound=Object)

IndexFunction: TypeAlias = Callable[[T], Iterable[str]]
"""Returns the index values of an object. All index functions receive the same object and must not change it."""

_log = get_logger("kubewright.cache")


class Index:
    """Keys by index value."""

    def __init__(self) -> None:
        self._keys: dict[str, ObjectKey | set[ObjectKey]] = {}
        """Keys without a set: most owners have one child of a kind, and a set is large."""

    def move(self, key: ObjectKey, before: Collection[str], after: Collection[str]) -> None:
        """Change the values of `key` from `before` to `after`."""
        if before == after:
            return
        for value in before:
            self._discard(key, value)
        for value in after:
            self._add(key, value)

    def find(self, value: str) -> Collection[ObjectKey]:
        found = self._keys.get(value, ())
        return (found,) if isinstance(found, ObjectKey) else found

    def _add(self, key: ObjectKey, value: str) -> None:
        found = self._keys.setdefault(value, key)
        if isinstance(found, set):
            found.add(key)
        elif found != key:
            self._keys[value] = {found, key}

    def _discard(self, key: ObjectKey, value: str) -> None:
        found = self._keys[value]
        if isinstance(found, set) and len(found) > 1:
            found.discard(key)
        else:
            self._keys.pop(value)


class Store(Generic[T]):
    """The entries of one kind. Only its reflector changes them. Tasks on the event loop may read it."""

    def __init__(self, indexers: Mapping[str, IndexFunction[T]]) -> None:
        self.version = 0
        """The store contains all changes up to this resource version. With a stream per namespace, it is the greatest
        of their versions.
        """
        self._versions: dict[str, int] = {}
        """The version of each namespace with its own stream."""
        self._entries: dict[ObjectKey, Entry[T]] = {}
        self.get: Callable[[ObjectKey], Entry[T] | None] = self._entries.get
        """The entry under a key, or None."""
        self._by_namespace: dict[str | None, set[ObjectKey]] = {}
        self._by_owner = Index()
        self._indexers = dict(indexers)
        self._indexes = {name: Index() for name in indexers}
        self._indexed: dict[ObjectKey, list[tuple[str, ...]]] = {}
        """The values of each object, in the order of the indexes."""
        self._reported: set[ObjectKey] = set()

    def __len__(self) -> int:
        return len(self._entries)

    def reach(self, version: int, namespace: str | None) -> None:
        """Note that the store contains all changes up to `version`, of `namespace` or of all namespaces."""
        if namespace is None:
            self.version = version
        else:
            self._versions[namespace] = version
            self.version = max(self.version, version)

    def version_of(self, namespace: str | None) -> int:
        """Return the resource version up to which the store contains all changes of `namespace`."""
        if namespace is None or not self._versions:
            return self.version
        return self._versions.get(namespace, 0)

    def keys(self, namespace: str | None) -> Collection[ObjectKey]:
        """Return the keys in a namespace, or in all."""
        return self._entries.keys() if namespace is None else self._by_namespace.get(namespace, ())

    @property
    def size(self) -> int:
        """Bytes of all packed documents, without half a kilobyte of metadata each. Computed on each call."""
        references = {id(entry.reference): entry.reference for entry in self._entries.values() if entry.reference}
        return sum(len(entry.packed) for entry in self._entries.values()) + sum(
            len(reference.document) for reference in references.values()
        )

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._entries)

    def put(self, entry: Entry[T]) -> Entry[T] | None:
        """Add a new version. Returns the previous version."""
        key = entry.key
        old = self._entries.get(key)
        self._entries[key] = entry
        if old is None:
            self._by_namespace.setdefault(key.namespace, set()).add(key)
        else:
            self._reported.discard(key)
        if old is None or old.owners is not entry.owners:
            self._by_owner.move(key, _owners(old), _owners(entry))
        if self._indexers:
            self._move(key, self._values(entry))
        return old

    def remove(self, key: ObjectKey) -> Entry[T] | None:
        """Remove an object. Returns its last version."""
        old = self._entries.pop(key, None)
        if old is None:
            return None
        members = self._by_namespace[key.namespace]
        members.discard(key)
        if not members:
            del self._by_namespace[key.namespace]
        self._by_owner.move(key, _owners(old), ())
        if self._indexers:
            self._move(key, [()] * len(self._indexers))
            del self._indexed[key]
        self._reported.discard(key)
        return old

    def select(self, *, namespace: str | None = None, labels: Selector | None = None) -> list[Entry[T]]:
        """Return the entries of a namespace, or of all, with matching labels, sorted by namespace and name."""
        entries = self._entries
        found = [entries[key] for key in self.keys(namespace)]
        if labels is not None and not labels.empty:
            found = [entry for entry in found if labels.matches(entry.labels)]
        return _ordered(found)

    def owned_by(self, uid: str) -> list[Entry[T]]:
        """Return the entries that have an owner reference to `uid`."""
        return _ordered([self._entries[key] for key in self._by_owner.find(uid)])

    def by_index(self, name: str, value: str) -> list[Entry[T]]:
        """Return the entries under `value` of an index. Raises KeyError for an index that does not exist."""
        index = self._indexes.get(name)
        if index is None:
            raise KeyError(f"there is no index {name!r}; there are {sorted(self._indexes)}")
        return _ordered([self._entries[key] for key in index.find(value)])

    def decode(self, entries: Iterable[Entry[T]]) -> list[T]:
        """Return the objects of `entries`, without those that are not of their kind: each such version is reported
        once.
        """
        found: list[T] = []
        for entry in entries:
            try:
                found.append(entry.decode())
            except DecodeError as error:
                self.report(entry, error)
        return found

    def report(self, entry: Entry[T], error: Exception) -> None:
        """Log once that this version of an object does not match its class."""
        if entry.key not in self._reported:
            self._reported.add(entry.key)
            _log.warning("Object skipped, it does not match its class", error=str(error))

    def _move(self, key: ObjectKey, values: list[tuple[str, ...]]) -> None:
        before = self._indexed.get(key) or [()] * len(values)
        for index, was, now in zip(self._indexes.values(), before, values, strict=True):
            index.move(key, was, now)
        self._indexed[key] = values

    def _values(self, entry: Entry[T]) -> list[tuple[str, ...]]:
        """Return the results of the index functions. The object is decoded once."""
        try:
            obj = entry.decode()
        except DecodeError as error:
            self.report(entry, error)
            return [()] * len(self._indexers)
        found: list[tuple[str, ...]] = []
        for name, function in self._indexers.items():
            values: tuple[str, ...] = ()
            try:
                values = tuple(dict.fromkeys(function(obj)))
            except Exception:  # noqa: BLE001 - an error in a user's function must not affect other objects
                _log.exception("Index function failed", index=name, kind=entry.kind.__api__.kind, object=str(entry.key))
            found.append(values)
        return found


def _owners(entry: Entry[Any] | None) -> tuple[str, ...]:
    """Return the distinct uids of the owners."""
    return tuple(dict.fromkeys(owner.uid for owner in entry.owners)) if entry is not None and entry.owners else ()


def _ordered(entries: list[Entry[T]]) -> list[Entry[T]]:
    entries.sort(key=_order)
    return entries


def _order(entry: Entry[Any]) -> tuple[str, str]:
    return entry.key.namespace or "", entry.key.name
