"""Reads from an informer's copy, without waiting and without requests."""

from __future__ import annotations

import builtins
from typing import Generic, TypeVar

from kubewright.cache._entry import Entry, ObjectKey
from kubewright.cache._store import Store
from kubewright.client._lists import Labels, label_selector
from kubewright.models import Object

T = TypeVar("T", bound=Object)


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
