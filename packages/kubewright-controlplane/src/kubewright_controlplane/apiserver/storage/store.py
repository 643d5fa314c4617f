"""The store: all objects of a server, under one global revision.

Guarantees
    Each commit increases the revision by one, whatever the resource.
    A commit is complete before anything sees it: first the entry, the event and the log; then cursors wake; then
    observers run.
    A cursor opened at revision r reads every event above r, in order, exactly once; or raises Gone.
    A scan at revision r returns the state at that revision; or raises Gone.
    With a log, commits before the return of `flush` survive the process.

Written by one event loop only. Other threads may call `get`, `scan` and `count`: they see the state before or after a
commit.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Protocol

from kubewright._runtime.clock import Clock, Timer
from kubewright._runtime.log import get_logger
from kubewright.machinery.errors import Gone
from kubewright_controlplane.apiserver.storage.events import Cursor, Entry, Event, EventType, History, Observer

_log = get_logger(__name__)

EXPIRY_STEPS = 5
"""The number of times that expired events are dropped within their lifetime."""


class Log(Protocol):
    """Persistent storage of a store's commits."""

    def load(self) -> tuple[dict[str, dict[str, Entry]], int]:
        """Return the entries of each resource by key, and the revision of the last commit."""
        ...

    def append(self, event: Event) -> None:
        """Append a commit; it may be written later, in order. Raises InternalError if an earlier one could not be
        written.
        """
        ...

    async def flush(self) -> None:
        """Wait until all appended commits are written. Raises InternalError if they cannot be."""
        ...

    async def close(self) -> None: ...


class Store:
    """Objects in memory, and in `log` if there is one. Starts with the contents of the log.

    `history` is the number of events of each resource that are kept for cursors and for scans of the past.
    """

    def __init__(self, *, history: int = 8192, log: Log | None = None) -> None:
        self.revision = 1
        """The revision of the last commit."""
        self.expiry_steps = 0
        """How many times expired events have been dropped."""
        self._history = history
        self._log = log
        self._tables: dict[str, Table] = {}
        self._observers: dict[str, list[Observer]] = {}
        self._unobserved: deque[Event] = deque()
        self._observing = False
        self._compacted = 0
        """Watches of new resources can't start before this revision."""
        self._oldest_scan = 0
        """The state before this revision can't be read. Watches may start before it."""
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
        """The revision of the next commit, for encoding an object with its resourceVersion."""
        return self.revision + 1

    def get(self, resource: str, key: str) -> Entry | None:
        table = self._tables.get(resource)
        return None if table is None else table.entries.get(key)

    def scan(self, resource: str, *, namespace: str = "", revision: int | None = None, after: str = "") -> list[Entry]:
        """Return the entries in key order, starting after the key `after`: the current ones, or those at `revision`.

        Raises Gone if the history does not reach back to `revision`, or after `drop_events` of a later one.
        """
        if revision == self.revision:
            revision = None
        if revision is not None and revision < self._oldest_scan:
            raise Gone(f"too old resource version: {revision} ({self._oldest_scan})")
        return self._table(resource).snapshot(namespace, revision, after)

    def count(self, resource: str) -> int:
        table = self._tables.get(resource)
        return 0 if table is None else len(table.entries)

    def put(self, resource: str, key: str, data: bytes, labels: Mapping[str, str], fields: Mapping[str, str]) -> Event:
        """Store `data` under `key`, at `next_revision`."""
        previous = self.get(resource, key)
        entry = Entry(key, self.next_revision, data, labels, fields)
        return self._commit("ADDED" if previous is None else "MODIFIED", resource, entry, previous)

    def remove(self, resource: str, key: str, data: bytes) -> Event:
        """Delete the entry under `key`. `data` is its last state, for watchers. Raises KeyError if there is none."""
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
        """Pass each new event to its observers. Their own commits wait until the earlier events have been passed on.

        The commit is complete, so an observer that raises must not fail the writer. The failure is logged.
        """
        if self._observing:
            return
        self._observing = True
        try:
            while self._unobserved:
                event = self._unobserved.popleft()
                for observer in tuple(self._observers.get(event.resource, ())):
                    try:
                        observer(event)
                    except Exception:  # noqa: BLE001 -- a defect in one observer must not hide the commit from others
                        _log.exception("Observer failed", resource=event.resource, key=event.entry.key)
        finally:
            self._observing = False

    def rewrite(self, resource: str, entries: Iterable[Entry], made: Iterable[bytes]) -> None:
        """Replace the bytes of entries that are still current by those that were made of their last writes, at their
        revisions. Causes no event, and is not written to the log.
        """
        current = self._table(resource).entries
        for entry, data in zip(entries, made, strict=True):
            if data != entry.data and current.get(entry.key) is entry:
                kept = entry.last_write if data != entry.last_write else None
                current[entry.key] = Entry(entry.key, entry.revision, data, entry.labels, entry.fields, kept)

    def observe(self, resource: str, observer: Observer) -> None:
        """Call `observer` for each stored object (as ADDED), then after each commit."""
        for entry in self.scan(resource):
            observer(Event("ADDED", resource, entry.revision, entry, None))
        self._observers.setdefault(resource, []).append(observer)

    def unobserve(self, resource: str, observer: Observer) -> None:
        """Stop calling an observer."""
        left = [each for each in self._observers.pop(resource) if each != observer]
        if left:
            self._observers[resource] = left

    def watch(self, resource: str, since: int, prefix: str = "") -> Cursor:
        """Return a cursor at the first event above revision `since`, for keys that start with `prefix`.

        Raises Gone if events above `since` were dropped.
        """
        history = self._table(resource).history
        if since < history.floor:
            raise Gone(f"too old resource version: {since} ({history.floor})")
        return Cursor(history, history.position_after(since), prefix)

    def floor(self, resource: str) -> int:
        """Return the oldest revision that `watch` supports."""
        return self._table(resource).history.floor

    def history_sizes(self) -> dict[str, tuple[int, int]]:
        """Return the number of events that are kept of each resource, and the size of their objects in bytes."""
        return {name: (len(table.history.events), table.history.size) for name, table in self._tables.items()}

    def size(self, resource: str) -> int:
        """Return the size of the stored objects of a resource, in bytes."""
        table = self._tables.get(resource)
        return 0 if table is None else sum(len(entry.data) for entry in table.entries.values())

    def drop_events(self, revision: int) -> None:
        """Drop the events up to `revision`, of all resources. The state before it can no longer be read.

        A watch may start earlier, if all later events of its resource are kept.
        """
        self._oldest_scan = max(self._oldest_scan, revision)
        for table in self._tables.values():
            table.history.drop_until(revision)

    def compact(self, revision: int) -> None:
        """Drop the history up to `revision`, of all resources, also of those that have no events."""
        self._oldest_scan = max(self._oldest_scan, revision)
        self._compacted = max(self._compacted, revision)
        for table in self._tables.values():
            table.history.compact(revision)

    def end_watches(self, resource: str) -> None:
        """Close all cursors of a resource that is no longer served."""
        for cursor in tuple(self._table(resource).history.cursors):
            cursor.close()

    async def flush(self) -> None:
        """Wait until all commits so far are in the log."""
        if self._log is not None:
            await self._log.flush()

    async def close(self) -> None:
        """End all watches, write pending commits, and close the log."""
        for resource in self._tables:
            self.end_watches(resource)
        if self._log is not None:
            await self._log.close()


class Table:
    """Entries and history of one resource."""

    def __init__(self, history: History) -> None:
        self.entries: dict[str, Entry] = {}
        self.history = history
        self._keys: list[str] = []
        self._lock = Lock()
        """Held while keys and entries may differ."""

    def restore(self, entries: dict[str, Entry]) -> None:
        self.entries = entries
        self._keys = sorted(entries)

    def commit(self, event: Event) -> None:
        key = event.entry.key
        with self._lock:
            if event.type == "DELETED":
                del self.entries[key]
                del self._keys[bisect_left(self._keys, key)]
            else:
                if event.type == "ADDED":
                    insort(self._keys, key)
                self.entries[key] = event.entry
        self.history.append(event)

    def snapshot(self, namespace: str, revision: int | None, after: str) -> list[Entry]:
        """Return the entries in key order."""
        if revision is None:
            with self._lock:
                low, high = _bounds(self._keys, namespace, after)
                return list(map(self.entries.__getitem__, self._keys[low:high]))
        undone = self.history.undone_since(revision)
        added = {key for key, entry in undone.items() if entry is None}
        keys = sorted({*self._keys, *undone} - added)
        low, high = _bounds(keys, namespace, after)
        return [undone.get(key) or self.entries[key] for key in keys[low:high]]


def _bounds(keys: list[str], namespace: str, after: str) -> tuple[int, int]:
    """Return where the keys of a namespace (empty: all) start and end that come after the key `after`."""
    low, high = (bisect_right(keys, after) if after else 0), len(keys)
    if namespace:
        low = max(low, bisect_left(keys, namespace + "/"))
        high = bisect_left(keys, namespace + "0")  # "0" is the character after "/"
    return low, high


class HistoryExpiry:
    """Drops events older than `seconds`, as kube-apiserver makes etcd do (--etcd-compaction-interval)."""

    def __init__(self, store: Store, seconds: float, clock: Clock) -> None:
        self._store = store
        self._seconds = seconds
        self._clock = clock
        self._marks: deque[tuple[float, int]] = deque()
        """Times, and the last revision at each."""
        self._timer: Timer | None = None

    def start(self) -> None:
        self._drop_expired()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _drop_expired(self) -> None:
        now = self._clock.monotonic()
        while self._marks and self._marks[0][0] <= now - self._seconds:
            self._store.drop_events(self._marks.popleft()[1])
        self._marks.append((now, self._store.revision))
        self._store.expiry_steps += 1
        self._timer = self._clock.call_later(self._seconds / EXPIRY_STEPS, self._drop_expired)
