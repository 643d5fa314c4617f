"""Event handlers: which requests an event leads to.

A handler is a function from an event to requests. It runs on the event loop for every event and must not wait.

Follows controller-runtime's pkg/handler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from kubewright.cache._entry import Entry, Event
from kubewright.cache._lister import Lister
from kubewright.controllers._types import Request
from kubewright.controllers.predicates import Predicate
from kubewright.models import Object

T = TypeVar("T", bound=Object)
U = TypeVar("U", bound=Object)

EventHandler: TypeAlias = Callable[[Event[T]], Iterable[Request]]
"""From a change of an object to the requests to enqueue."""
MapFunction: TypeAlias = Callable[[U, Lister[T]], Iterable[Request]]
"""Returns the requests to enqueue for a changed object, given a lister of the controller's own objects."""
IndexValues: TypeAlias = Callable[[Entry[U]], Iterable[str]]
"""Returns the index values to look up for a changed object, without decoding it."""


def enqueue_object(event: Event[T]) -> Iterable[Request]:
    """Return the changed object itself."""
    return (event.key,)


def enqueue_owner(owner: type[Object]) -> EventHandler[Any]:
    """Return the controlling owner if its kind is `owner`, and both owners if an update changed the owner.

    The version of the API group is ignored, because an owner reference may name an older one.
    """
    api = owner.__api__
    group, kind, namespaced = api.group, api.kind, api.namespaced

    def handle(event: Event[Any]) -> Iterable[Request]:
        requests: list[Request] = []
        for entry in (event.old, event.new):
            reference = entry.controller if entry is not None and entry.owners else None
            if reference is None or reference.kind != kind or reference.api_version.rpartition("/")[0] != group:
                continue
            request = Request(event.key.namespace if namespaced else None, reference.name)
            if request not in requests:
                requests.append(request)
        return requests

    return handle


def enqueue_mapped(function: MapFunction[U, T], lister: Lister[T]) -> EventHandler[U]:
    """Return what `function` returns for the old and for the new state of the object."""

    def handle(event: Event[U]) -> Iterable[Request]:
        entries = (entry for entry in (event.old, event.new) if entry is not None)
        return dict.fromkeys(request for entry in entries for request in function(entry.decode(), lister))

    return handle


def enqueue_indexed(index: str, lister: Lister[Any]) -> EventHandler[Any]:
    """Return the objects that `index` has under the name of the changed object.

    The value is the name for objects in the same namespace, and `namespace/name` for all objects. The name of a
    cluster-scoped object finds objects in all namespaces.
    """

    def handle(event: Event[Any]) -> Iterable[Request]:
        namespace, name = event.key
        found = [key for key in lister.keys_by_index(index, name) if namespace is None or key.namespace == namespace]
        if namespace is not None:
            found += lister.keys_by_index(index, str(event.key))
        return dict.fromkeys(found)

    return handle


def enqueue_indexed_by(values: IndexValues[Any], index: str, lister: Lister[Any]) -> EventHandler[Any]:
    """Return the objects that `index` has under the values of the old and of the new state of the object."""

    def handle(event: Event[Any]) -> Iterable[Request]:
        entries = (entry for entry in (event.old, event.new) if entry is not None)
        wanted = dict.fromkeys(value for entry in entries for value in values(entry))
        return dict.fromkeys(key for value in wanted for key in lister.keys_by_index(index, value))

    return handle


def only_if(predicate: Predicate | None, handler: EventHandler[Any]) -> EventHandler[Any]:
    """Return what `handler` returns, for the events that pass."""
    if predicate is None:
        return handler
    return lambda event: handler(event) if predicate(event) else ()


def if_found(handler: EventHandler[Any], predicate: Predicate | None) -> EventHandler[Any]:
    """Return what `handler` returns, for the events that pass. Events without requests skip the predicate.

    For cheap handlers, because a predicate may decode the object.
    """
    if predicate is None:
        return handler

    def handle(event: Event[Any]) -> Iterable[Request]:
        found = handler(event)
        return found if found and predicate(event) else ()

    return handle
