"""Predicates: which events lead to a reconcile.

Combine predicates with `&`, `|` and `~`. The predicates of this module let adds and deletes pass and compare the two
states of an update:

    @controller(WebServer, predicate=generation_changed | labels_changed)

Predicates save work, but a reconciler must be correct without them, because it also runs for other reasons.

Follows controller-runtime's pkg/predicate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from kubewright.cache._entry import Entry, Event
from kubewright.models import Object

T = TypeVar("T", bound=Object)

AnyEvent: TypeAlias = Event[Any]
"""An event of the kind that the predicate is used for."""


class Predicate:
    """A test of events, made from a function: `Predicate(lambda event: event.key.name != "default")`."""

    __slots__ = ("_test",)

    def __init__(self, test: Callable[[AnyEvent], bool]) -> None:
        self._test = test

    def __call__(self, event: AnyEvent) -> bool:
        """Whether `event` leads to a reconcile."""
        return self._test(event)

    def __and__(self, other: Predicate) -> Predicate:
        return Predicate(lambda event: self(event) and other(event))

    def __or__(self, other: Predicate) -> Predicate:
        return Predicate(lambda event: self(event) or other(event))

    def __invert__(self) -> Predicate:
        return Predicate(lambda event: not self(event))


def _of_updates(differs: Callable[[Entry[Any], Entry[Any]], bool]) -> Predicate:
    def test(event: AnyEvent) -> bool:
        return event.old is None or event.new is None or differs(event.old, event.new)

    return Predicate(test)


generation_changed = _of_updates(lambda old, new: old.generation != new.generation or old.deleting != new.deleting)
"""The desired state changed, or the deletion was requested. Kinds without a generation pass no updates."""

labels_changed = _of_updates(lambda old, new: old.labels != new.labels)
"""A label was added, removed or changed."""

annotations_changed = _of_updates(lambda old, new: old.annotations != new.annotations)
"""An annotation was added, removed or changed."""

resource_version_changed = _of_updates(lambda old, new: old.resource_version != new.resource_version)
"""Anything changed. False for the repeated events of a resync."""


def changed(value_of: Callable[[T], object]) -> Predicate:
    """Let updates pass if `value_of` returns different values for the old and the new state. Both are decoded."""
    return _of_updates(lambda old, new: value_of(old.decode()) != value_of(new.decode()))
