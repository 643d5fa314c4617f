"""Reads from an informer's copy: no waiting, no requests."""

from __future__ import annotations

import builtins
from typing import Generic, TypeVar

from kubewright.cache._entry import Entry, ObjectKey
from kubewright.cache._store import Store
from kubewright.client._lists import Labels, label_selector
from kubewright.models import Object

T = TypeVar("T", bound=Object)


class Lister(Generic[T]):
    """Finds objects by key, namespace, labels, owner and index; what it gives is the caller's own.

    Lists are in the order of namespace and name. An object that is not of its kind (it does not decode) is left out of
    them, and reported once.
    """

    def __init__(self, store: Store[T]) -> None:
        self._store = store

    def get(self, name: str, namespace: str | None = None) -> T | None:
        """The object, or None. Raises DecodeError for one that is there but not of its kind."""
        entry = self._store.get(ObjectKey(namespace, name))
        return entry.decode() if entry is not None else None

    def list(self, *, namespace: str | None = None, labels: Labels = None) -> builtins.list[T]:
        """The objects of a namespace, or of all, that have such labels."""
        return self._store.decode(self.entries(namespace=namespace, labels=labels))

    def owned_by(self, uid: str) -> builtins.list[T]:
        """The objects that have an owner reference to `uid`."""
        return self._store.decode(self._store.owned_by(uid))

    def by_index(self, name: str, value: str) -> builtins.list[T]:
        """The objects that the index function `name` put under `value`. Raises KeyError for an index that is not
        there.
        """
        return self._store.decode(self._store.by_index(name, value))

    def keys_by_index(self, name: str, value: str) -> builtins.list[ObjectKey]:
        """Where the objects are that `by_index` gives, without decoding them."""
        return [entry.key for entry in self._store.by_index(name, value)]

    def entry(self, key: ObjectKey) -> Entry[T] | None:
        """What is known of the object without decoding it."""
        return self._store.get(key)

    def entries(self, *, namespace: str | None = None, labels: Labels = None) -> builtins.list[Entry[T]]:
        """What is known of the objects of a namespace, or of all, that have such labels."""
        return self._store.select(namespace=namespace, labels=label_selector(labels))

    def entries_owned_by(self, uid: str) -> builtins.list[Entry[T]]:
        """Return the entries of `owned_by`, without decoding them."""
        return self._store.owned_by(uid)

    def __len__(self) -> int:
        return len(self._store)
