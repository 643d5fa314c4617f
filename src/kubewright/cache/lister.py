"""Reads from an informer's copy: no waiting, no requests."""

from __future__ import annotations

from typing import Generic, TypeVar

from kubewright.cache.entry import Entry, ObjectKey
from kubewright.client.lists import Labels
from kubewright.models import Object

T = TypeVar("T", bound=Object)


class Lister(Generic[T]):
    """Finds objects by key, namespace, labels, owner and index; what it gives is the caller's own.

    Lists are in the order of namespace and name. An object that is not of its kind (it does not decode) is left out of
    lists; it has been reported when it arrived.
    """

    def get(self, name: str, namespace: str | None = None) -> T | None:
        """The object, or None."""
        raise NotImplementedError

    def list(self, *, namespace: str | None = None, labels: Labels = None) -> list[T]:
        raise NotImplementedError

    def owned_by(self, uid: str) -> list[T]:
        """The objects that have an owner reference to `uid`."""
        raise NotImplementedError

    def by_index(self, name: str, value: str) -> list[T]:
        """The objects that the index function `name` put under `value`. Raises KeyError for an index that does not exist."""
        raise NotImplementedError

    def entry(self, key: ObjectKey) -> Entry[T] | None:
        """What is known of the object without decoding it."""
        raise NotImplementedError

    def entries(self, *, namespace: str | None = None, labels: Labels = None) -> list[Entry[T]]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError
