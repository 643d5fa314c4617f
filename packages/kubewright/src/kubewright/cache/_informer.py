"""Keeps a copy of one kind in sync with the server, and calls handlers when it changes.

Guarantees
    Handlers are called in the order of the events, one at a time, from the event loop; never after `stop`.
    When `wait_synced` returns, every handler has received each object of the first list.
    Deletes are always reported, including those that happened while the watch was disconnected. So is the loss of a
    write of this process: as a delete of an object that may never have been reported, or as an update back to the
    earlier state.
    If a handler raises an exception, it is logged and the other handlers are still called.
Not guaranteed
    Each step between two states: updates are merged while the watch is disconnected.

Follows client-go's tools/cache SharedIndexInformer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Generic, TypeVar

from kubewright._runtime.clock import Timer
from kubewright.cache._copy import Handler, KindCopy, Registration
from kubewright.cache._entry import Event, ObjectKey
from kubewright.cache._reflector import Reflector
from kubewright.cache._store import (
    IndexFunction,
    Lister,
    Namespaces,
)
from kubewright.client._client import Client
from kubewright.client._lists import Fields, Labels, selection
from kubewright.machinery.errors import ConfigError, DeadlineExceeded, Forbidden, NotFound, StatusDetails
from kubewright.machinery.time import Seconds, seconds
from kubewright.models import Object

T = TypeVar("T", bound=Object)


class Informer(Generic[T]):
    """A synchronized copy of one kind, or of the part of it that namespaces and selectors select."""

    def __init__(
        self,
        client: Client,
        kind: type[T],
        *,
        namespaces: Namespaces = None,
        labels: Labels = None,
        fields: Fields = None,
        only: Collection[str] | None = None,
        indexers: Mapping[str, IndexFunction[T]] | None = None,
        keep_managed_fields: bool = False,
        resync: Seconds | None = None,
    ) -> None:
        """Follow the whole cluster, or `namespaces`: each of several namespaces has a stream of its own.

        `only` are the fields that are kept of each object (`spec.nodeName`), in addition to its metadata; None keeps
        all. managedFields are a quarter of a typical object and are not kept unless `keep_managed_fields` is set; an
        update without them does not change those on the server. Every `resync`, handlers are called for each object as
        if it had been updated.
        """
        self.kind = kind
        self.resource: str = client.endpoint(kind).resource
        """The name in RBAC and messages: `deployments.apps`."""
        self._copy = KindCopy(
            kind,
            namespaces=namespaces,
            labels=labels,
            fields=fields,
            only=only,
            indexers=indexers or {},
            keep_managed_fields=keep_managed_fields,
            clock=client.clock,
        )
        self.namespaces = self._copy.namespaces
        """The namespaces whose objects are kept; (None,) is all of them."""
        self._clock = client.clock
        self._resync = seconds(resync) if resync is not None else None
        self._resync_timer: Timer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._reflectors = [
            Reflector(client, self._copy, namespace, selection=selection(labels, fields))
            for namespace in self.namespaces
        ]

    @property
    def lister(self) -> Lister[T]:
        """Lister for the copy."""
        return Lister(self._copy.store)

    def __len__(self) -> int:
        """The number of objects in the copy."""
        return len(self._copy.store)

    def __bool__(self) -> bool:
        return True

    @property
    def size(self) -> int:
        """Bytes of all packed documents; see `Store.size`."""
        return self._copy.store.size

    def get(self, key: ObjectKey) -> T:
        """Return the object under `key`. Raises NotFound, and DecodeError if it does not match its class."""
        entry = self._copy.store.get(key)
        if entry is None:
            api = self.kind.__api__
            details = StatusDetails(name=key.name, group=api.group, kind=api.plural)
            raise NotFound(f'{api.gvr.qualified_resource} "{key.name}" not found', details=details)
        return entry.decode()

    @property
    def synced(self) -> bool:
        """Whether the first list is complete. Stays true."""
        return self._copy.synced

    @property
    def last_error(self) -> Exception | None:
        """Why the last attempt to list or watch failed; None if it succeeded."""
        return next((each.error for each in self._reflectors if each.error is not None), None)

    @property
    def reason_not_synced(self) -> str:
        """The kind, the reason why its first list is not complete, and the remedy."""
        if not self._tasks:
            return f"{self.resource}: the informer was not started"
        if isinstance(self.last_error, Forbidden):
            return (
                f"{self.resource}: {self.last_error}; grant list and watch on it. The role of a controller grants them "
                f"for each kind that it declares, for example with cached=[{self.kind.__name__}]: declare the kind, "
                "generate the role (kubewright generate) and apply it"
            )
        if isinstance(self.last_error, NotFound):
            return f"{self.resource}: its CustomResourceDefinition is not installed, or does not serve this version"
        return f"{self.resource}: {self.last_error or 'the server has not answered yet'}"

    def start(self) -> None:
        """Start following the kind. Requires a running event loop. A second call has no effect. `stop` is final."""
        if not self._tasks:
            name = f"informer {self.resource}"
            self._tasks = [asyncio.create_task(each.run(), name=name) for each in self._reflectors]
            self._schedule_resync()

    async def stop(self) -> None:
        """Stop following the kind, and wait until it has stopped. The copy stays readable."""
        if self._resync_timer is not None:
            self._resync_timer.cancel()
        self._copy.handlers.clear()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def wait_synced(self, timeout: Seconds | None = None) -> None:
        """Wait until the first list is complete. Raises DeadlineExceeded after `timeout`, with the reason."""
        allowed = seconds(timeout) if timeout is not None else None
        if not await self._copy.until(lambda: self._copy.synced, allowed):
            raise DeadlineExceeded(f"the cache was not complete after {allowed:g} s: {self.reason_not_synced}")

    def add_handler(
        self,
        *,
        on_add: Handler[T] | None = None,
        on_update: Handler[T] | None = None,
        on_delete: Handler[T] | None = None,
    ) -> Registration:
        """Call these handlers from now on. `on_add` is called immediately for each object that is already known.

        A handler must return quickly.
        """
        copy = self._copy
        registration = Registration(copy.handlers)
        copy.handlers[registration] = {"add": on_add, "update": on_update, "delete": on_delete}
        if on_add is not None:
            for entry in copy.store.select():
                copy.call(on_add, Event("add", entry.key, None, entry, initial=True))
        return registration

    def _schedule_resync(self) -> None:
        if self._resync is not None:
            self._resync_timer = self._clock.call_later(self._resync, self._report_all)

    def _report_all(self) -> None:
        for entry in self._copy.store.select():
            self._copy.report(Event("update", entry.key, entry, entry, initial=True))
        self._schedule_resync()


def copy_of(informer: Informer[T]) -> KindCopy[T]:
    """Return the copy behind an informer, for the parts of Kubewright that write."""
    return informer._copy


async def wait_readable(informer: Informer[T], timeout: float) -> None:
    """Wait like `Informer.wait_synced`, but raise ConfigError immediately if the server rejects the list or watch."""
    copy = copy_of(informer)

    def is_refused() -> bool:
        return isinstance(informer.last_error, (Forbidden, NotFound))

    await copy.until(lambda: copy.synced or is_refused(), timeout)
    if copy.synced:
        return
    if is_refused():
        raise ConfigError(f"{informer.kind.__api__.kind} cannot be read: {informer.reason_not_synced}")
    raise DeadlineExceeded(f"the cache was not complete after {timeout:g} s: {informer.reason_not_synced}")
