"""The contents of a store: entries, and the events between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(slots=True, eq=False)
class Entry:
    """One stored object: its bytes, and the values that selectors match. Never changes."""

    key: str
    """`namespace/name`, or the name alone."""
    revision: int
    data: bytes
    """The object as JSON in its storage version, with `kind` and `apiVersion` first, including its resourceVersion."""
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
    """Frames encoded for watches, by representation. The first watch encodes one, and all others share it."""


Observer: TypeAlias = Callable[[Event], None]
"""Called synchronously after each commit of a resource, in order. It may write. What it raises is logged."""
