"""One object as the cache holds it: the bytes that arrived, and beside them what is asked for without decoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from kubewright.models import Object

T = TypeVar("T", bound=Object)


class ObjectKey(NamedTuple):
    """Where an object of a kind is. `namespace` is None for cluster-scoped kinds."""

    namespace: str | None
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Owner(NamedTuple):
    """One owner reference."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool


class Entry(Generic[T]):
    """One version of one object. Immutable; `decode` gives a fresh object each time."""

    key: ObjectKey
    uid: str
    resource_version: int
    """As a number: versions of one kind are ordered (KEP-5504)."""
    generation: int
    labels: Mapping[str, str]
    owners: tuple[Owner, ...]
    deleting: bool
    """Deletion was asked for; finalizers or a grace period still hold it."""
    data: bytes

    @property
    def annotations(self) -> Mapping[str, str]:
        """Decoded when asked for."""
        raise NotImplementedError

    @property
    def controller(self) -> Owner | None:
        """The owner that manages this object, if there is one."""
        raise NotImplementedError

    def decode(self) -> T:
        """The object, the caller's own. Raises DecodeError when it is not one of its kind."""
        raise NotImplementedError


EventType: TypeAlias = Literal["add", "update", "delete"]


@dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """What became of one object. `old` is None for an add, `new` for a delete; a delete's `old` is the last known state."""

    type: EventType
    key: ObjectKey
    old: Entry[T] | None
    new: Entry[T] | None
    initial: bool = False
    """Part of the first list: was there before we looked. Work for it can wait behind what happens now."""
