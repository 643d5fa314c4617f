"""Which events are worth a reconcile.

A predicate is asked of each event; `&`, `|` and `~` combine them. Those here say yes to adds and deletes and look at
what an update changed:

    @controller(WebServer, predicate=generation_changed | labels_changed)

A predicate saves work, never correctness: a reconcile must be right when it comes unasked, too.

Follows controller-runtime's pkg/predicate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from kubewright.cache._entry import Entry, Event
from kubewright.models import Object

T = TypeVar("T", bound=Object)

AnyEvent: TypeAlias = Event[Any]
"""An event of whatever kind the predicate is used for."""


class Predicate:
    """A test of events. Make one from a function: `Predicate(lambda event: event.key.name != "default")`."""

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
"""The desired state changed, or deletion was asked for. Not for kinds without a generation: it sees no update there."""

labels_changed = _of_updates(lambda old, new: old.labels != new.labels)
"""A label was added, removed or got another value."""

annotations_changed = _of_updates(lambda old, new: old.annotations != new.annotations)
"""An annotation was added, removed or got another value."""

resource_version_changed = _of_updates(lambda old, new: old.resource_version != new.resource_version)
"""Anything changed. False for what a relist found as it was."""


def changed(what: Callable[[T], object]) -> Predicate:
    """Of updates, those after which `what` says something else of the object than before.

    Both states are decoded for it.
    """
    return _of_updates(lambda old, new: what(old.decode()) != what(new.decode()))
