"""Keeps a copy of one kind in step with the server, and tells handlers what changes.

Guarantees
    Handlers are called in the order of the events, one at a time, from the event loop; never after `stop`.
    When `wait_synced` returns, every handler has been told of each object of the first list.
    A delete is told, even one that happened while there was no connection.
Not guaranteed
    Each step between two states: updates are merged while there is no connection.

Follows client-go's tools/cache SharedIndexInformer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeAlias, TypeVar

from kubewright.cache.entry import Event
from kubewright.cache.lister import Lister
from kubewright.client.client import Client
from kubewright.client.lists import Fields, Labels
from kubewright.models import Object

T = TypeVar("T", bound=Object)

Handler: TypeAlias = Callable[[Event[T]], None]
IndexFunction: TypeAlias = Callable[[T], Iterable[str]]
"""The values under which an object is found. Given a fresh object; must not raise."""


class Registration:
    """A set of handlers on an informer."""

    def remove(self) -> None:
        """No handler of this set is called from here on. Harmless the second time."""


class Informer(Generic[T]):
    """The copy of one kind, or of the part of it that a namespace and selectors give."""

    def __init__(
        self,
        client: Client,
        kind: type[T],
        *,
        namespace: str | None = None,
        labels: Labels = None,
        fields: Fields = None,
        indexers: Mapping[str, IndexFunction[T]] | None = None,
        keep_managed_fields: bool = False,
    ) -> None:
        """Of the whole cluster when `namespace` is None. managedFields cost a quarter of a typical object and are left out
        unless asked for; an update without them leaves the server's as they are."""

    kind: type[T]

    @property
    def lister(self) -> Lister[T]:
        """Reads from the copy."""
        raise NotImplementedError

    @property
    def synced(self) -> bool:
        """The first list is complete. Stays true."""
        raise NotImplementedError

    @property
    def last_error(self) -> Exception | None:
        """Why the last attempt to list or watch failed; None while all is well."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin. Needs a running event loop; harmless the second time."""

    async def stop(self) -> None:
        """End, and wait for the end. What is in the copy stays readable."""

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Until the first list is complete. After `timeout` seconds: DeadlineExceeded, which says what stood in the way."""

    def add_handler(
        self,
        *,
        on_add: Handler[T] | None = None,
        on_update: Handler[T] | None = None,
        on_delete: Handler[T] | None = None,
    ) -> Registration:
        """Call these from now on; first `on_add`, at once, for each object that is already known."""
        raise NotImplementedError
