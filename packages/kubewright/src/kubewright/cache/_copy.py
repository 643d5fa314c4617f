"""The in-memory copy of one kind: its objects, handlers, and own writes that it does not show yet.

`Informer` is the public interface. One reflector per followed namespace updates the copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from kubewright._runtime.clock import Clock
from kubewright._runtime.log import get_logger
from kubewright.cache._apply_diff import LastApplied
from kubewright.cache._entry import Entry, EntryDecoder, Event, EventType, ObjectKey
from kubewright.cache._projection import Projection
from kubewright.cache._reflector import Change
from kubewright.cache._selection import EVERYWHERE, Namespaces, Selection, each_of
from kubewright.cache._store import IndexFunction, Store
from kubewright.cache._writes import OwnWrites, Write
from kubewright.client._lists import Fields, Labels
from kubewright.models import Object

T = TypeVar("T", bound=Object)

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
    """The objects of one kind, or of the part of it that namespaces and selectors select."""

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
