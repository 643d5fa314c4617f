"""The objects of one kind in memory, found by key, namespace, owner, labels and by the values of index functions.

Store       the entries and their indexes
Lister      reads from a store, without waiting and without requests
Selection   selects entries by labels and fields
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

from kubewright._runtime.log import get_logger
from kubewright.cache._entry import Entry, ObjectKey
from kubewright.client._lists import Fields, Labels, fields_text, label_selector
from kubewright.machinery.errors import DecodeError
from kubewright.machinery.selectors import FieldSelector, Selector
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
        shared = {id(part): len(part) for reference in references.values() for part in reference.parts}
        return sum(len(entry.packed) for entry in self._entries.values()) + sum(shared.values())

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
    if entry is None or not entry.owners:
        return ()
    return tuple({owner.uid: None for owner in entry.owners})


def _ordered(entries: list[Entry[T]]) -> list[Entry[T]]:
    entries.sort(key=_order)
    return entries


def _order(entry: Entry[Any]) -> tuple[str, str]:
    return entry.key.namespace or "", entry.key.name


Namespaces: TypeAlias = str | Sequence[str] | None
"""One namespace, or several; None means all."""

EVERYWHERE: Final[tuple[str | None, ...]] = (None,)


def each_of(namespaces: Namespaces) -> tuple[str | None, ...]:
    """Return each namespace once; `EVERYWHERE` if none is named."""
    if not namespaces:
        return EVERYWHERE
    return (namespaces,) if isinstance(namespaces, str) else tuple(dict.fromkeys(namespaces))


_KNOWN: Final = frozenset({"metadata.name", "metadata.namespace"})


class Selection:
    """Selects objects by labels and fields."""

    def __init__(self, labels: Labels, fields: Fields) -> None:
        """Raises ValueError for text that is not a selector."""
        self._labels = label_selector(labels)
        self._fields = FieldSelector.parse(fields_text(fields)) if fields is not None else FieldSelector()
        self.unknown = sorted({each.field for each in self._fields.requirements} - _KNOWN)
        """The selected fields that an entry does not show without decoding."""

    def has_labels(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels may be selected."""
        return self._labels is None or self._labels.matches(labels)

    def has(self, entry: Entry[Any]) -> bool:
        """Return whether this object is certainly selected."""
        name, namespace = entry.key.name, entry.key.namespace or ""
        return (
            self.has_labels(entry.labels)
            and not self.unknown
            and self._fields.matches({"metadata.name": name, "metadata.namespace": namespace})
        )


class Lister(Generic[T]):
    """Finds objects by key, namespace, labels, owner and index. The caller may change what it returns.

    Lists are sorted by namespace and name. They leave out objects that do not match their class; each is logged once.
    """

    def __init__(self, store: Store[T]) -> None:
        self._store = store

    def get(self, name: str, namespace: str | None = None) -> T | None:
        """Return the object, or None. Raises DecodeError if it does not match its class."""
        entry = self._store.get(ObjectKey(namespace, name))
        return entry.decode() if entry is not None else None

    def list(self, *, namespace: str | None = None, labels: Labels = None) -> builtins.list[T]:
        """Return the objects of a namespace, or of all, with matching labels."""
        return self._store.decode(self.entries(namespace=namespace, labels=labels))

    def owned_by(self, uid: str) -> builtins.list[T]:
        """Return the objects that have an owner reference to `uid`."""
        return self._store.decode(self._store.owned_by(uid))

    def by_index(self, name: str, value: str) -> builtins.list[T]:
        """Return the objects that the index function `name` put under `value`. Raises KeyError for an unknown index."""
        return self._store.decode(self._store.by_index(name, value))

    def keys_by_index(self, name: str, value: str) -> builtins.list[ObjectKey]:
        """Return the keys of the objects that `by_index` returns, without decoding them."""
        return [entry.key for entry in self._store.by_index(name, value)]

    def entry(self, key: ObjectKey) -> Entry[T] | None:
        """Return the entry of an object: the data that is available without decoding."""
        return self._store.get(key)

    def entries(
        self, *, namespace: str | None = None, labels: Labels = None, owner: str | None = None
    ) -> builtins.list[Entry[T]]:
        """Return the entries of a namespace, or of all, with matching labels, or an owner with the uid `owner`."""
        selector = label_selector(labels)
        if owner is None:
            return self._store.select(namespace=namespace, labels=selector)
        return [
            entry
            for entry in self._store.owned_by(owner)
            if (namespace is None or entry.key.namespace == namespace)
            and (selector is None or selector.matches(entry.labels))
        ]

    def entries_owned_by(self, uid: str) -> builtins.list[Entry[T]]:
        """Return the entries of `owned_by`, without decoding them."""
        return self._store.owned_by(uid)

    def __len__(self) -> int:
        return len(self._store)
