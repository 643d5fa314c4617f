"""The in-memory copy of one kind: its objects, handlers, and own writes that it does not show yet.

`kubewright.cache._informer.Informer` is the public interface. A reflector for each followed namespace updates the copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import takewhile
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from kubewright._runtime.clock import Clock
from kubewright._runtime.log import get_logger
from kubewright.cache._apply_diff import LastApplied
from kubewright.cache._entry import Entry, EntryDecoder, Event, EventType, ObjectKey, Projection
from kubewright.cache._store import EVERYWHERE, IndexFunction, Namespaces, Selection, Store, each_of
from kubewright.client._lists import Fields, Labels
from kubewright.models import Object

T = TypeVar("T", bound=Object)

Change: TypeAlias = tuple[bool, Entry[T]]
"""One event: whether the object was deleted, and its current or last state."""

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
        self.synced = False
        """Whether the first list of every namespace is complete. Stays true."""
        self._unlisted = set(self.namespaces)
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

    def replace(
        self, namespace: str | None, entries: Mapping[ObjectKey, Entry[T]], version: int, *, writes_before: int
    ) -> None:
        """Replace the objects of a namespace, or all, by a whole list at a resource version.

        The differences are reported as events, deletes first. The list was requested after `writes_before` own writes.
        """
        initial = namespace in self._unlisted
        self.own_writes.listed(namespace, writes_before, entries)
        for key in [key for key in self.store.keys(namespace) if key not in entries]:
            self.remove(key, None)
        for entry in entries.values():
            self.put(entry, initial=initial)
        self._reached(namespace, version)
        self._unlisted.discard(namespace)
        self.synced = not self._unlisted
        self.changed()

    def apply(self, namespace: str | None, changes: Iterable[Change[T]], version: int) -> None:
        """Apply changes that arrived together, in order. There are no other changes up to `version`."""
        for deleted, entry in changes:
            if deleted:
                self.remove(entry.key, entry, watched=True)
            else:
                self.put(entry, initial=False, watched=True)
            self.own_writes.happened(entry.key, entry.resource_version)
        self._reached(namespace, version)
        self.changed()

    def _reached(self, namespace: str | None, version: int) -> None:
        self.store.reach(version, namespace)
        self.own_writes.reached(namespace, version)

    def put(self, entry: Entry[T], *, initial: bool, watched: bool = False) -> None:
        """Add a new version of an object. `watched`: the server reported each earlier version too."""
        old = self.store.get(entry.key)
        if old is entry:
            return
        if old is not None and old.uid != entry.uid:
            self.remove(entry.key, None)
            old = None
        self.store.put(entry)
        self.report(Event("add" if old is None else "update", entry.key, old, entry, initial, watched))

    def remove(self, key: ObjectKey, last: Entry[T] | None, *, watched: bool = False) -> None:
        """Remove an object that was deleted; `last` is its last state, if that is known."""
        held = self.store.remove(key)
        if held is not None:
            self.applied.forget(key)
            self.report(Event("delete", key, last or held, None, watched=watched))

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


class Write(msgspec.Struct, eq=False):
    """The last write of one key. It wrote `document`, or deleted the object with `deleted_uid`."""

    key: ObjectKey
    number: int
    """The number of earlier writes."""
    version: int
    """The resource version after the write. The answer to a delete may have none, or the previous version."""
    document: bytes = b""
    deleted_uid: str = ""
    after: int = 0
    """The last known version before a write whose answer has no version. Any later version shows the write."""
    overdue: bool = False
    """Whether a read timed out waiting for this write."""

    @property
    def is_dated(self) -> bool:
        """Whether `version` is exactly the version of the write. Otherwise only a list shows that it is lost."""
        return not self.deleted_uid and not self.after

    def is_shown_by(self, held: Entry[Any] | None) -> bool:
        """Return whether a cache at `version` or later with this entry shows the write."""
        if self.after:
            return held is None or held.resource_version > self.after
        if not self.deleted_uid:
            return held is not None and held.resource_version >= self.version
        if held is None or held.uid != self.deleted_uid:
            return True
        return held.deleting and held.resource_version >= self.version


class OwnWrites:
    """The last write of each key, until the store shows it or shows that it is lost.

    An event of the same or a later version shows a write. A write is lost if the store reaches a later version without
    it: the server was restored from an older state, or another client undid the write while the watch was disconnected.
    No event reports that.
    """

    def __init__(self, store: Store[Any], namespaces: Sequence[str | None], lost: Callable[[Write], None]) -> None:
        """Track the writes to a store with a stream for each of `namespaces`. `lost` is called with each lost write."""
        self._store = store
        self._lost = lost
        self._pending: dict[ObjectKey, Write] = {}
        """The tracked writes, by number."""
        self.pending: Callable[[ObjectKey], Write | None] = self._pending.get
        """The last write of a key, if the store does not show it yet."""
        self._due: dict[str | None, list[tuple[int, int, Write]]] = {each: [] for each in namespaces}
        """Heaps ordered by version. Writes that the store has shown in the meantime are skipped."""
        self._count = 0

    @property
    def count(self) -> int:
        """The number of writes so far. A list that is requested now contains them, unless they are lost."""
        return self._count

    def wrote(self, key: ObjectKey, version: int, document: bytes = b"") -> None:
        """Note that the object under `key` was written, and is `document` at this resource version.

        Without a `document`, as for a write of `scale`, only the version is known.
        """
        self._note(Write(key, self._count, version, document))

    def deleted(self, key: ObjectKey, uid: str, version: int) -> None:
        """Note that the object with this uid was deleted. `version` is that of the answer, or 0."""
        earlier = self._pending.get(key)
        least = earlier.version if earlier is not None else 0
        self._note(Write(key, self._count, max(version, least), deleted_uid=uid))

    def changed(self, key: ObjectKey, after: int) -> None:
        """Note that the object under `key` was written after version `after`, as by a Pod's `binding`."""
        self._note(Write(key, self._count, after, after=after))

    def latest_version(self, key: ObjectKey) -> int:
        """Return the newest version of `key` that the store or a pending write has; 0 if there is none."""
        held, write = self._store.get(key), self._pending.get(key)
        return max(held.resource_version if held is not None else 0, write.version if write is not None else 0)

    def seen(self, key: ObjectKey) -> bool:
        """Return whether the store has seen the last write of `key`."""
        return key not in self._pending

    def unseen(self, key: ObjectKey | None, count: int) -> Iterator[Write]:
        """Yield the writes among the first `count` that the store has not seen, of `key` or of all keys."""
        if key is None:
            return takewhile(lambda write: write.number < count, self._pending.values())
        write = self._pending.get(key)
        return iter(() if write is None or write.number >= count else (write,))

    def happened(self, key: ObjectKey, version: int) -> None:
        """Note that the store contains an event of `key` with this version."""
        write = self._pending.get(key)
        if write is None or version < write.version:
            return
        if write.is_dated or write.is_shown_by(self._store.get(key)):
            del self._pending[key]

    def reached(self, namespace: str | None, version: int) -> None:
        """Note that the store contains all changes up to `version`, of one namespace or of all."""
        due = self._due[namespace]
        while due and due[0][0] <= version:
            write = heappop(due)[2]
            if self._pending.get(write.key) is write and self._is_decided(write):
                del self._pending[write.key]

    def listed(self, namespace: str | None, count: int, entries: Mapping[ObjectKey, Entry[Any]]) -> None:
        """Note that `entries` replace the content of the store. They were requested after `count` writes.

        If the store reports a change for a lost write, the write is not reported separately.
        """
        decided = [
            write
            for write in self._pending.values()
            if write.number < count and (namespace is None or write.key.namespace == namespace)
        ]
        for write in decided:
            del self._pending[write.key]
            held = entries.get(write.key)
            if not write.is_shown_by(held) and held is self._store.get(write.key):
                self._lost(write)
        self._due[namespace] = [each for each in self._due[namespace] if each[1] >= count]
        heapify(self._due[namespace])

    def _note(self, write: Write) -> None:
        self._count += 1
        self._pending.pop(write.key, None)
        if self._store.version_of(write.key.namespace) >= write.version:
            if self._is_decided(write):
                return
        else:
            namespace = write.key.namespace
            heappush(self._due[namespace if namespace in self._due else None], (write.version, write.number, write))
        self._pending[write.key] = write

    def _is_decided(self, write: Write) -> bool:
        """Return whether the store, which has all changes up to the write's version, shows the fate of the write.

        The event of a deletion may have a later version, so only a list shows that a deletion is lost.
        """
        shown = write.is_shown_by(self._store.get(write.key))
        if not shown and write.is_dated:
            self._lost(write)
        return shown or write.is_dated
