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
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from kubewright._runtime.clock import Clock, Timer
from kubewright._runtime.log import get_logger
from kubewright.cache._apply_diff import LastApplied
from kubewright.cache._entry import Entry, EntryDecoder, Event, EventType, ObjectKey, Projection
from kubewright.cache._reflector import Change, Reflector
from kubewright.cache._store import (
    EVERYWHERE,
    IndexFunction,
    Lister,
    Namespaces,
    OwnWrites,
    Selection,
    Store,
    Write,
    each_of,
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
            Reflector(
                client,
                kind,
                part,
                path=client.endpoint(kind).collection(part.namespace),
                selection=selection(labels, fields),
                decoder=self._copy.decoder,
            )
            for part in self._copy.parts
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
        return next((part.error for part in self._copy.parts if part.error is not None), None)

    @property
    def reason_not_synced(self) -> str:
        """The kind, the reason why its first list is not complete, and the remedy."""
        if not self._tasks:
            return f"{self.resource}: the informer was not started"
        if isinstance(self.last_error, Forbidden):
            return (
                f"{self.resource}: {self.last_error}; grant list and watch on it (the role generated from a controller "
                "has them for the kinds that it declares)"
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
        """Call these handlers from now on. `on_add` is called at once for each object that is already known.

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
    """Wait as `Informer.wait_synced` does, but raise ConfigError at once if the server rejects the list or watch."""
    copy = copy_of(informer)

    def is_refused() -> bool:
        return isinstance(informer.last_error, (Forbidden, NotFound))

    await copy.until(lambda: copy.synced or is_refused(), timeout)
    if copy.synced:
        return
    if is_refused():
        raise ConfigError(f"{informer.kind.__api__.kind} cannot be read: {informer.reason_not_synced}")
    raise DeadlineExceeded(f"the cache was not complete after {timeout:g} s: {informer.reason_not_synced}")


Handler: TypeAlias = Callable[[Event[T]], None]
"""Called with each event, on the event loop and in order. It must not block, and awaits nothing."""

_log = get_logger("kubewright.cache")


class Registration:
    """A set of handlers on an informer."""

    def __init__(self, handlers: dict[Registration, Any]) -> None:
        self._handlers = handlers

    def remove(self) -> None:
        """Stop calling the handlers of this set. A second call has no effect."""
        self._handlers.pop(self, None)


class KindCopy(Generic[T]):
    """The in-memory copy of one kind: its objects, handlers, and own writes that it does not show yet.

    `Informer` is the public interface. One reflector per followed namespace updates the copy.
    """

    def __init__(
        self,
        kind: type[T],
        *,
        namespaces: Namespaces,
        labels: Labels,
        fields: Fields,
        only: Collection[str] | None,
        indexers: Mapping[str, IndexFunction[T]],
        keep_managed_fields: bool,
        clock: Clock,
    ) -> None:
        self.kind = kind
        self.store = Store[T](indexers)
        self.applied = LastApplied()
        self.namespaces = each_of(namespaces)
        self.own_writes = OwnWrites(self.store, self.namespaces, self._report_lost)
        self.handlers: dict[Registration, dict[EventType, Handler[T] | None]] = {}
        self.parts = [Part(self, each) for each in self.namespaces]
        self.synced = False
        """Whether the first list of every part is complete. Stays true."""
        projection = Projection(only) if only is not None else None
        self.decoder = EntryDecoder(kind, keep_managed_fields=keep_managed_fields, projection=projection)
        self._selection = Selection(labels, fields)
        self._clock = clock
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[bool]]] = []

    def concerns(self, key: ObjectKey, labels: Mapping[str, str]) -> bool:
        """Return whether an object with this namespace and labels belongs to the copy."""
        if self.namespaces != EVERYWHERE and key.namespace not in self.namespaces:
            return False
        return self._selection.has_labels(labels) or self.store.get(key) is not None

    def latest(self, key: ObjectKey) -> Entry[T] | None:
        """Return the newest known state of an object: from the store, or from a write that the store does not show yet.

        None if the object does not exist, and also if this process has requested its deletion.
        """
        write = self.own_writes.pending(key)
        if write is None or not (write.document or write.deleted_uid):
            return self.store.get(key)
        return self.decoder.decode(msgspec.Raw(write.document)) if write.document else None

    # ---- waiting

    async def until(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until a condition of this copy is true, for `timeout` seconds at most. Returns whether it is true."""
        if condition():
            return True
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def expire() -> None:
            if not future.done():
                future.set_result(False)

        self._waiting.append((condition, future))
        timer = self._clock.call_later(timeout, expire) if timeout is not None else None
        try:
            return await future
        finally:
            if timer is not None:
                timer.cancel()

    def changed(self) -> None:
        """Check the conditions that tasks wait for, and wake the tasks whose condition is true."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for condition, future in waiting:
            if future.done():
                continue
            if condition():
                future.set_result(True)
            else:
                self._waiting.append((condition, future))

    # ---- changes

    def put(self, entry: Entry[T], *, initial: bool) -> None:
        """Add a new version of an object."""
        old = self.store.get(entry.key)
        if old is entry:
            return
        if old is not None and old.uid != entry.uid:
            self.remove(entry.key, None)
            old = None
        self.store.put(entry)
        self.report(Event("add" if old is None else "update", entry.key, old, entry, initial))

    def remove(self, key: ObjectKey, last: Entry[T] | None) -> None:
        """Remove an object that was deleted; `last` is its last state, if that is known."""
        held = self.store.remove(key)
        if held is not None:
            self.applied.forget(key)
            self.report(Event("delete", key, last or held, None))

    def _report_lost(self, write: Write) -> None:
        """Report a write of this process that was lost, because no event of the server does."""
        held = self.store.get(write.key)
        if write.deleted_uid:
            self.report(Event("delete", write.key, held, None))
            self.report(Event("add", write.key, None, held))
        elif not write.document:
            if held is not None:
                self.report(Event("update", write.key, held, held))
        else:
            written = self.decoder.decode(msgspec.Raw(write.document))
            if held is not None:
                self.report(Event("update", write.key, written, held))
            elif self._selection.has(written):
                self.applied.forget(write.key)
                self.report(Event("delete", write.key, written, None))

    def report(self, event: Event[T]) -> None:
        """Call the handlers of an event."""
        for handlers in list(self.handlers.values()):
            handler = handlers[event.type]
            if handler is not None:
                self.call(handler, event)

    def call(self, handler: Handler[T], event: Event[T]) -> None:
        """Call one handler. An exception is logged."""
        try:
            handler(event)
        except Exception:  # noqa: BLE001 - an error in one handler must not affect other handlers or the watch
            _log.exception("Handler failed", event=event.type, kind=self.kind.__api__.kind, object=str(event.key))


class Part(Generic[T]):
    """The part of the copy that one reflector updates: one namespace, or all. It is the `Sink` of the reflector."""

    def __init__(self, copy: KindCopy[T], namespace: str | None) -> None:
        self.namespace = namespace
        self.synced = False
        """Whether the first list is complete. Stays true."""
        self.error: Exception | None = None
        """Why the last attempt to list or watch failed; None if it succeeded."""
        self.known = copy.store.get
        self._copy = copy
        self._writes_before_list = 0

    def __len__(self) -> int:
        return len(self._copy.store)

    def listing(self) -> None:
        self._writes_before_list = self._copy.own_writes.count

    def replace(self, entries: Mapping[ObjectKey, Entry[T]], version: int) -> None:
        """Replace the content by a whole list. The differences are reported as events, deletes first."""
        copy, initial = self._copy, not self.synced
        copy.own_writes.listed(self.namespace, self._writes_before_list, entries)
        for key in [key for key in copy.store.keys(self.namespace) if key not in entries]:
            copy.remove(key, None)
        for entry in entries.values():
            copy.put(entry, initial=initial)
        self._reached(version)
        self.synced = True
        copy.synced = copy.synced or all(each.synced for each in copy.parts)
        copy.changed()

    def apply(self, changes: Iterable[Change[T]], version: int) -> None:
        """Apply changes that arrived together."""
        copy = self._copy
        for deleted, entry in changes:
            if deleted:
                copy.remove(entry.key, entry)
            else:
                copy.put(entry, initial=False)
            copy.own_writes.happened(entry.key, entry.resource_version)
        self._reached(version)
        copy.changed()

    def _reached(self, version: int) -> None:
        self._copy.store.reach(version, self.namespace)
        self._copy.own_writes.reached(self.namespace, version)

    def connected(self) -> None:
        self.error = None

    def failed(self, error: Exception) -> None:
        self.error = error
        self._copy.changed()
