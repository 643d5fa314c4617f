"""The store: every object of a server, under one global revision.

Guarantees
    Each commit has the revision after the one before it, whatever the resource.
    A commit is whole before anyone sees it: the entry, the event, the log; then cursors wake; then observers run.
    A cursor opened at revision r gets every event above r, in order, once; or Gone, never a gap.
    A scan at revision r is what a scan at that time was; or Gone.
With a log, what `flush` has returned from survives the process.

Not for threads: one event loop writes and reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from kubewright._runtime.log import get_logger
from kubewright.machinery.errors import Gone
from kubewright_controlplane.apiserver.storage.events import Entry, Event, EventType, Observer
from kubewright_controlplane.apiserver.storage.history import Cursor, History
from kubewright_controlplane.apiserver.storage.table import Snapshot, Table

_log = get_logger(__name__)


class Log(Protocol):
    """Where a store's commits are kept beyond the process."""

    def load(self) -> tuple[dict[str, dict[str, Entry]], int]:
        """The entries of each resource by key, and the revision of the last commit."""
        ...

    def append(self, event: Event) -> None:
        """Keep a commit; it may be written later, in order. Raises InternalError when an earlier one could not be."""
        ...

    async def flush(self) -> None:
        """Return once everything appended is written."""
        ...

    async def close(self) -> None: ...


class Store:
    """Objects in memory, and in `log` if one is given; starts with what the log holds.

    `history` is how many events of each resource are kept for cursors and for scans of the past.
    """

    def __init__(self, *, history: int = 8192, log: Log | None = None) -> None:
        self.revision = 1
        """Of the last commit."""
        self._history = history
        self._log = log
        self._tables: dict[str, Table] = {}
        self._observers: dict[str, list[Observer]] = {}
        self._unobserved: deque[Event] = deque()
        self._observing = False
        self._compacted = 0
        if log is not None:
            self._restore(log)

    def _restore(self, log: Log) -> None:
        kept, self.revision = log.load()
        self._compacted = self.revision
        for resource, entries in kept.items():
            self._table(resource).restore(entries)

    def _table(self, resource: str) -> Table:
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = Table(History(self._history, self._compacted))
        return table

    @property
    def next_revision(self) -> int:
        """The revision that the next commit will have: an object's bytes are made with it inside."""
        return self.revision + 1

    def get(self, resource: str, key: str) -> Entry | None:
        table = self._tables.get(resource)
        return None if table is None else table.entries.get(key)

    def scan(self, resource: str, *, namespace: str = "", revision: int | None = None, after: str = "") -> Snapshot:
        """Entries in key order, from behind the key `after`; of the present, or as they were at `revision`.

        Raises Gone when the history does not reach back to `revision`.
        """
        return self._table(resource).snapshot(namespace, None if revision == self.revision else revision, after)

    def count(self, resource: str) -> int:
        table = self._tables.get(resource)
        return 0 if table is None else len(table.entries)

    def put(self, resource: str, key: str, data: bytes, labels: Mapping[str, str], fields: Mapping[str, str]) -> Event:
        """Store `data` under `key`, at `next_revision`."""
        previous = self.get(resource, key)
        entry = Entry(key, self.next_revision, data, labels, fields)
        return self._commit("ADDED" if previous is None else "MODIFIED", resource, entry, previous)

    def remove(self, resource: str, key: str, data: bytes) -> Event:
        """Delete what is under `key`. `data` is its last state, as watchers see it go. Raises KeyError if none is."""
        previous = self._table(resource).entries[key]
        entry = Entry(key, self.next_revision, data, previous.labels, previous.fields)
        return self._commit("DELETED", resource, entry, previous)

    def _commit(self, type: EventType, resource: str, entry: Entry, previous: Entry | None) -> Event:
        event = Event(type, resource, entry.revision, entry, previous)
        if self._log is not None:
            self._log.append(event)
        self.revision = entry.revision
        self._table(resource).commit(event)
        if resource in self._observers:
            self._unobserved.append(event)
            self._call_observers()
        return event

    def _call_observers(self) -> None:
        """Pass each new event to its observers. Their own commits wait until the events before have been passed on.

        The commit is complete, so an observer that raises must not fail the writer. The failure is logged.
        """
        if self._observing:
            return
        self._observing = True
        try:
            while self._unobserved:
                event = self._unobserved.popleft()
                for observer in tuple(self._observers[event.resource]):
                    try:
                        observer(event)
                    except Exception:  # noqa: BLE001 -- a defect in one observer must not hide the commit from others
                        _log.exception("Observer failed", resource=event.resource, key=event.entry.key)
        finally:
            self._observing = False

    def rewrite(self, resource: str, make: Callable[[bytes], bytes]) -> None:
        """Replace the bytes of every entry, at the revision that it has: no event tells of it, and no log keeps it."""
        entries = self._table(resource).entries
        for key, entry in entries.items():
            entries[key] = Entry(key, entry.revision, make(entry.data), entry.labels, entry.fields)

    def observe(self, resource: str, observer: Observer) -> None:
        """Tell `observer` of what is stored now, as ADDED events, and of each commit from now on."""
        for entry in self.scan(resource):
            observer(Event("ADDED", resource, entry.revision, entry, None))
        self._observers.setdefault(resource, []).append(observer)

    def watch(self, resource: str, since: int, prefix: str = "") -> Cursor:
        """A cursor at the first event above revision `since`, of keys that start with `prefix`.

        Raises Gone when events above `since` have been forgotten.
        """
        history = self._table(resource).history
        if since < history.floor:
            raise Gone(f"too old resource version: {since} ({history.floor})")
        return Cursor(history, history.position_after(since), prefix)

    def floor(self, resource: str) -> int:
        """The oldest revision from which `watch` and `scan` still work."""
        return self._table(resource).history.floor

    def compact(self, revision: int) -> None:
        """Forget the history up to `revision`, of all resources."""
        self._compacted = max(self._compacted, revision)
        for table in self._tables.values():
            table.history.compact(revision)

    def end_watches(self, resource: str) -> None:
        """Close every cursor of a resource: it is served no more."""
        for cursor in tuple(self._table(resource).history.cursors):
            cursor.close()

    async def flush(self) -> None:
        """Return once every commit made so far is in the log."""
        if self._log is not None:
            await self._log.flush()

    async def close(self) -> None:
        """End all watches; write what is left to write, and let go of the log."""
        for resource in self._tables:
            self.end_watches(resource)
        if self._log is not None:
            await self._log.close()
