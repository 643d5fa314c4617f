"""Keeps a copy of one kind in step with the server, and tells handlers what changes.

Guarantees
    Handlers are called in the order of the events, one at a time, from the event loop; never after `stop`.
    When `wait_synced` returns, every handler has been told of each object of the first list.
    A delete is told, even one that happened while there was no connection. So is the loss of what this process wrote
    (`own_writes`): as a delete of an object that may never have been told of, or as an update back to what it was.
    A handler that raises is reported, and the others are called all the same.
Not guaranteed
    Each step between two states: updates are merged while there is no connection.

Follows client-go's tools/cache SharedIndexInformer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from kubewright._runtime.clock import Timer
from kubewright._runtime.log import get_logger
from kubewright.cache._applied import LastApplied
from kubewright.cache._entry import Entry, EntryDecoder, Event, EventType, ObjectKey
from kubewright.cache._lister import Lister
from kubewright.cache._namespaces import EVERYWHERE, Namespaces, each_of
from kubewright.cache._projection import Projection
from kubewright.cache._reflector import Change, Reflector
from kubewright.cache._selection import Selection
from kubewright.cache._store import IndexFunction, Store
from kubewright.cache._waiting import Waiters
from kubewright.cache._writes import OwnWrites, Write
from kubewright.client._client import Client
from kubewright.client._lists import Fields, Labels, selection
from kubewright.machinery.errors import ConfigError, DeadlineExceeded, Forbidden, NotFound, StatusDetails
from kubewright.models import Object

T = TypeVar("T", bound=Object)

Handler: TypeAlias = Callable[[Event[T]], None]
"""Told of each event, on the event loop and in order; it must not block, and awaits nothing."""

_log = get_logger("kubewright.cache")


class Registration:
    """A set of handlers on an informer."""

    def __init__(self, handlers: dict[Registration, Any]) -> None:
        self._handlers = handlers

    def remove(self) -> None:
        """No handler of this set is called from here on. Harmless the second time."""
        self._handlers.pop(self, None)


class _Part(Generic[T]):
    """The objects of one namespace, or of all: a stream of its own, which brings them to the informer."""

    def __init__(self, informer: Informer[T], namespace: str | None) -> None:
        self.namespace = namespace
        self.synced = False
        self.error: Exception | None = None
        self.known = informer.store.get
        self.writes_before = 0
        """How many own writes there were when the last list was asked for."""
        self._informer = informer

    def listing(self) -> None:
        self.writes_before = self._informer.own_writes.count

    def __len__(self) -> int:
        return len(self._informer.store)

    def replace(self, entries: Mapping[ObjectKey, Entry[T]], version: int) -> None:
        self._informer.replace(self, entries, version)

    def apply(self, changes: Iterable[Change[T]], version: int) -> None:
        self._informer.apply(self, changes, version)

    def connected(self) -> None:
        self.error = None

    def failed(self, error: Exception) -> None:
        self.error = error
        self._informer.failed()


class Informer(Generic[T]):
    """The copy of one kind, or of the part of it that namespaces and selectors give."""

    def __init__(
        self,
        client: Client,
        kind: type[T],
        *,
        namespace: Namespaces = None,
        labels: Labels = None,
        fields: Fields = None,
        only: Collection[str] | None = None,
        indexers: Mapping[str, IndexFunction[T]] | None = None,
        keep_managed_fields: bool = False,
        resync: timedelta | None = None,
    ) -> None:
        """Of the whole cluster when `namespace` is None; each of several namespaces has a stream of its own.

        Of each object the fields `only` are held (`spec.nodeName`) beside its metadata, or all when it is None.
        managedFields cost a quarter of a typical object and are left out unless asked for; an update without them
        leaves the server's as they are. Every `resync`, handlers are called for each object as if it had been
        updated.
        """
        self.kind = kind
        self.store = Store[T](indexers or {})
        self.applied = LastApplied()
        self.resource: str = client.endpoint(kind).resource
        """As RBAC and messages name it: `deployments.apps`."""
        self.namespaces = each_of(namespace)
        """The namespaces whose objects are held; None is all of them."""
        self.own_writes = OwnWrites(self.store, self.namespaces, self._tell_of_lost)
        self._selection = Selection(labels, fields)
        self._clock = client.clock
        self._handlers: dict[Registration, dict[EventType, Handler[T] | None]] = {}
        self._waiters = Waiters(client.clock)
        self._resync = resync
        self._resync_timer: Timer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._parts = [_Part(self, each) for each in self.namespaces]
        projection = Projection(only) if only is not None else None
        self._decoder = EntryDecoder(kind, keep_managed_fields=keep_managed_fields, projection=projection)
        self._reflectors = [
            Reflector(
                client,
                kind,
                part,
                path=client.endpoint(kind).collection(part.namespace),
                selection=selection(labels, fields),
                decoder=self._decoder,
            )
            for part in self._parts
        ]
        self._synced = False

    @property
    def last_error(self) -> Exception | None:
        """Why the last attempt to list or watch failed; None while all is well."""
        return next((part.error for part in self._parts if part.error is not None), None)

    @property
    def lister(self) -> Lister[T]:
        """Reads from the copy."""
        return Lister(self.store)

    def get(self, key: ObjectKey) -> T:
        """The object under `key`. Raises NotFound; DecodeError for one that is there but not of its kind."""
        entry = self.store.get(key)
        if entry is None:
            api = self.kind.__api__
            details = StatusDetails(name=key.name, group=api.group, kind=api.plural)
            raise NotFound(f'{api.gvr.qualified_resource} "{key.name}" not found', details=details)
        return entry.decode()

    def latest(self, key: ObjectKey) -> Entry[T] | None:
        """The newest state of an object that this process knows: from the copy, or from a write not yet in the copy.

        None if the object does not exist, and also if this process has requested its deletion.
        """
        write = self.own_writes.pending(key)
        if write is None or not (write.document or write.deleted_uid):
            return self.store.get(key)
        return self._decoder.decode(msgspec.Raw(write.document)) if write.document else None

    @property
    def synced(self) -> bool:
        """The first list is complete. Stays true."""
        return self._synced

    def start(self) -> None:
        """Begin. Needs a running event loop; harmless the second time. One that was stopped can't be started again."""
        if not self._tasks:
            name = f"informer {self.resource}"
            self._tasks = [asyncio.create_task(each.run(), name=name) for each in self._reflectors]
            self._schedule_resync()

    async def stop(self) -> None:
        """End, and wait for the end. What is in the copy stays readable."""
        if self._resync_timer is not None:
            self._resync_timer.cancel()
        self._handlers.clear()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Until the first list is complete. After `timeout` seconds: DeadlineExceeded, which says what stood in the
        way.
        """
        if not await self.until_synced(timeout):
            raise DeadlineExceeded(f"the cache was not complete after {timeout:g} s: {self.hindrance}")

    async def wait_readable(self, timeout: float) -> None:
        """As `wait_synced`, but not for what somebody has to mend first: ConfigError when the server has refused us."""
        await self.wait_until(lambda: self._synced or self._is_refused, timeout)
        if self._synced:
            return
        if self._is_refused:
            raise ConfigError(f"{self.kind.__api__.kind} cannot be read: {self.hindrance}")
        raise DeadlineExceeded(f"the cache was not complete after {timeout:g} s: {self.hindrance}")

    @property
    def _is_refused(self) -> bool:
        return isinstance(self.last_error, (Forbidden, NotFound))

    async def until_synced(self, timeout: float | None = None) -> bool:
        """Until the first list is complete; whether it is, after `timeout` seconds at the latest."""
        return await self.wait_until(lambda: self._synced, timeout)

    @property
    def hindrance(self) -> str:
        """What kind this is, why its copy is not complete, and what to do about it."""
        if not self._tasks:
            return f"{self.resource}: was not started"
        if isinstance(self.last_error, Forbidden):
            return (
                f"{self.resource}: {self.last_error}; grant list and watch on it (the role made from a controller has "
                "them for what it declares in owns, watches and reads)"
            )
        if isinstance(self.last_error, NotFound):
            return f"{self.resource}: its CustomResourceDefinition is not installed, or does not serve this version"
        return f"{self.resource}: {self.last_error or 'the server has not answered yet'}"

    def concerns(self, key: ObjectKey, labels: Mapping[str, str]) -> bool:
        """Whether events of such an object come here, as far as its namespace and labels tell."""
        if self.namespaces != EVERYWHERE and key.namespace not in self.namespaces:
            return False
        return self._selection.has_labels(labels) or self.store.get(key) is not None

    async def wait_until(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Until `condition`, a question to the copy, is true; whether it is, after `timeout` seconds at the latest."""
        return await self._waiters.until(condition, timeout)

    def add_handler(
        self,
        *,
        on_add: Handler[T] | None = None,
        on_update: Handler[T] | None = None,
        on_delete: Handler[T] | None = None,
    ) -> Registration:
        """Call these from now on; first `on_add`, at once, for each object that is already known.

        A handler is quick: it notes what is to be done and returns.
        """
        registration = Registration(self._handlers)
        self._handlers[registration] = {"add": on_add, "update": on_update, "delete": on_delete}
        if on_add is not None:
            for entry in self.store.select():
                self._call(on_add, Event("add", entry.key, None, entry, initial=True))
        return registration

    # ---- what the reflector brings

    def failed(self) -> None:
        """Let those who wait know that a list or watch failed (`last_error`)."""
        self._waiters.changed()

    def replace(self, part: _Part[T], entries: Mapping[ObjectKey, Entry[T]], version: int) -> None:
        """Take in a whole list: the difference is told as events, deletes first."""
        initial = not part.synced
        self.own_writes.listed(part.namespace, part.writes_before, entries)
        for key in [key for key in self.store.keys(part.namespace) if key not in entries]:
            self._remove(key, None)
        for entry in entries.values():
            self._put(entry, initial=initial)
        self._reach(part, version)
        part.synced = True
        self._synced = self._synced or all(each.synced for each in self._parts)
        self._waiters.changed()

    def apply(self, part: _Part[T], changes: Iterable[Change[T]], version: int) -> None:
        """Take in what came together."""
        for deleted, entry in changes:
            if deleted:
                self._remove(entry.key, entry)
            else:
                self._put(entry, initial=False)
            self.own_writes.happened(entry.key, entry.resource_version)
        self._reach(part, version)
        self._waiters.changed()

    def _reach(self, part: _Part[T], version: int) -> None:
        self.store.reach(version, part.namespace)
        self.own_writes.reached(part.namespace, version)

    def _put(self, entry: Entry[T], *, initial: bool) -> None:
        old = self.store.get(entry.key)
        if old is entry:
            return
        if old is not None and old.uid != entry.uid:
            self._remove(entry.key, None)
            old = None
        self.store.put(entry)
        self._tell(Event("add" if old is None else "update", entry.key, old, entry, initial))

    def _remove(self, key: ObjectKey, last: Entry[T] | None) -> None:
        """Let an object go that is gone; `last` is its state at the end, where it is known."""
        held = self.store.remove(key)
        if held is not None:
            self.applied.forget(key)
            self._tell(Event("delete", key, last or held, None))

    def _tell_of_lost(self, write: Write) -> None:
        """Tell of a write of this process that came to nothing, since nothing else does."""
        held = self.store.get(write.key)
        if write.deleted_uid:
            self._tell(Event("delete", write.key, held, None))
            self._tell(Event("add", write.key, None, held))
            return
        if not write.document:
            if held is not None:
                self._tell(Event("update", write.key, held, held))
            return
        written = self._decoder.decode(msgspec.Raw(write.document))
        if held is not None:
            self._tell(Event("update", write.key, written, held))
        elif self._selection.has(written):
            self.applied.forget(write.key)
            self._tell(Event("delete", write.key, written, None))

    def _tell(self, event: Event[T]) -> None:
        for handlers in list(self._handlers.values()):
            handler = handlers[event.type]
            if handler is not None:
                self._call(handler, event)

    def _call(self, handler: Handler[T], event: Event[T]) -> None:
        try:
            handler(event)
        except Exception:  # noqa: BLE001 - one handler's fault must not keep the event from the others, or end the watch
            _log.exception("A handler failed", event=event.type, kind=self.kind.__api__.kind, object=str(event.key))

    def _schedule_resync(self) -> None:
        if self._resync is not None:
            self._resync_timer = self._clock.call_later(self._resync.total_seconds(), self._tell_all)

    def _tell_all(self) -> None:
        for entry in self.store.select():
            self._tell(Event("update", entry.key, entry, entry, initial=True))
        self._schedule_resync()
