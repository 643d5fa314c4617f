"""What a store holds and tells: entries, and the events that turn one into the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(slots=True, eq=False)
class Entry:
    """One stored object: its bytes, and beside them what selects it. Never changed once stored."""

    key: str
    """`namespace/name`, or the name alone."""
    revision: int
    data: bytes
    """The object as JSON in its storage version, `kind` and `apiVersion` first, its own resourceVersion inside."""
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    """Values of the kind's own selectable fields, without metadata.name and metadata.namespace."""

    @property
    def namespace(self) -> str:
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]


@dataclass(slots=True, eq=False)
class Event:
    """One commit. A DELETED event's entry is the object's last state with the revision of the deletion."""

    type: EventType
    resource: str
    revision: int
    entry: Entry
    previous: Entry | None
    frames: dict[object, bytes] = field(default_factory=dict[object, bytes])
    """Encodings made for watchers, by representation: the first watcher makes one, all others share it."""


Observer: TypeAlias = Callable[[Event], None]
"""Called synchronously after each commit of a resource, in order. It may write. What it raises is logged."""
