"""From events to requests: whose reconcile an event asks for.

A handler is a function of an event. It runs on the event loop for each event: it looks, and does not wait.

Follows controller-runtime's pkg/handler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from kubewright.cache._entry import Entry, Event
from kubewright.cache._lister import Lister
from kubewright.controllers._reconcile import Request
from kubewright.controllers.predicates import Predicate
from kubewright.models import Object

T = TypeVar("T", bound=Object)
U = TypeVar("U", bound=Object)

EventHandler: TypeAlias = Callable[[Event[T]], Iterable[Request]]
MapFunction: TypeAlias = Callable[[U, Lister[T]], Iterable[Request]]
"""Given an object that changed and the cached objects of the controller's own kind: which of those to reconcile."""


def enqueue_object(event: Event[T]) -> Iterable[Request]:
    """The object itself."""
    return (event.key,)


def enqueue_owner(owner: type[Object]) -> EventHandler[Any]:
    """The controlling owner, where it is of the kind `owner`; both when an update changed it.

    Versions of the API group do not matter, since an owner reference may name an older one.
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
    """What `function` says of the object as it was and as it is."""

    def handle(event: Event[U]) -> Iterable[Request]:
        entries = (entry for entry in (event.old, event.new) if entry is not None)
        return dict.fromkeys(request for entry in entries for request in function(entry.decode(), lister))

    return handle


def enqueue_indexed(index: str, lister: Lister[Any]) -> EventHandler[Any]:
    """The objects that `index` has under the changed object's name, in its namespace, or under `namespace/name`.

    Of an object without a namespace: those that have its name, wherever they are.
    """

    def handle(event: Event[Any]) -> Iterable[Request]:
        namespace, name = event.key
        found = [key for key in lister.keys_by_index(index, name) if namespace is None or key.namespace == namespace]
        if namespace is not None:
            found += lister.keys_by_index(index, str(event.key))
        return dict.fromkeys(found)

    return handle


def enqueue_indexed_by(
    values: Callable[[Entry[Any]], Iterable[str]], index: str, lister: Lister[Any]
) -> EventHandler[Any]:
    """The objects that `index` has under what `values` says of the object as it was and as it is."""

    def handle(event: Event[Any]) -> Iterable[Request]:
        entries = (entry for entry in (event.old, event.new) if entry is not None)
        wanted = dict.fromkeys(value for entry in entries for value in values(entry))
        return dict.fromkeys(key for value in wanted for key in lister.keys_by_index(index, value))

    return handle


def enqueue_if(predicate: Predicate, handler: EventHandler[Any]) -> EventHandler[Any]:
    """What `handler` says, of events that pass. `predicate` is asked only when there is somebody whom it concerns: it
    may decode the object, which costs more than to find out.
    """

    def handle(event: Event[Any]) -> Iterable[Request]:
        found = handler(event)
        return found if found and predicate(event) else ()

    return handle
