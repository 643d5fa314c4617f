"""What a list answers, and how one asks for a part of a kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from kubewright.machinery.selectors import FieldSelector, LabelSelector

T = TypeVar("T")

Labels: TypeAlias = "LabelSelector | Mapping[str, str] | str | None"
"""A label selector: parsed, as equalities (`{"app": "web"}`), or as kubectl writes it (`"app=web,tier!=cache"`)."""

Fields: TypeAlias = "FieldSelector | Mapping[str, str] | str | None"
"""A field selector: parsed, as equalities (`{"metadata.name": "web"}`), or as text (`"status.phase!=Failed"`)."""


@dataclass(slots=True)
class ObjectList(Generic[T]):
    """Objects of one kind, as they were at one resource version."""

    items: list[T] = field(default_factory=list[T])
    resource_version: str = ""
    """Of the list as a whole; a watch from here misses nothing."""
    continue_token: str = ""
    """Hand it to `Client.list_page` for what comes next; empty at the end."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __bool__(self) -> bool:
        return bool(self.items)


def selector_text(selector: LabelSelector | FieldSelector | Mapping[str, str] | str | None) -> str:
    """A selector as a query parameter carries it; empty for one that selects everything."""
    if selector is None:
        return ""
    if isinstance(selector, Mapping):
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    return str(selector)
