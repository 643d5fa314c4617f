"""Writes Events (events.k8s.io/v1): messages of reconcilers for the users of objects.

Guarantees
    Recording neither waits nor fails: an Event is kept in memory, and one task writes all in order.
    A repeated Event increases the count of its series instead of creating an object, at most once a minute. A series
    ends after `SERIES_ENDS` seconds without the Event; after that the same Event begins a new one.
    Memory is bounded: while `BACKLOG` Events wait, further ones are dropped, counted and logged. A series is forgotten
    when `MAX_SERIES` others were seen after it, and keeps no more than its note once it is written.
Not guaranteed
    That an Event is written: an Event that the server rejects is logged and dropped.
    That a series continues after a restart: the next process writes a new Event, as client-go does.

Follows client-go's tools/events. Source:
https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from kubewright._runtime.log import get_logger
from kubewright.client._client import Client
from kubewright.client._patch import MergePatch
from kubewright.client._rest import reference_to
from kubewright.controllers._reconcile import EventRecord, EventRecorder
from kubewright.machinery import time
from kubewright.machinery.errors import APIError, KubewrightError, NotFound
from kubewright.models._meta import MicroTime, ObjectMeta

if TYPE_CHECKING:
    from kubewright.apis.events.v1 import Event

BACKLOG: Final = 10_000
"""Events that may wait to be written, of 1.3 kB each."""
MAX_SERIES: Final = 4096
"""Series that are remembered, of 1 kB each, as in client-go."""
SERIES_INTERVAL: Final = 60.0
"""Seconds between two writes of one series."""
SERIES_ENDS: Final = 360.0
"""Seconds without the Event after which its series ends, as in client-go."""
_LOG_DROPPED_AFTER: Final = 10.0
"""Seconds between log lines about dropped Events."""
_MAX_NOTE: Final = 1024
"""The longest note that the API server accepts, in bytes."""
_MAX_BASE: Final = 236
"""The longest first part of a name, in bytes."""
_FLUSH: Final = 2.0
"""Seconds for writing the waiting Events when the manager stops."""

EventType = Literal["Normal", "Warning"]
Fate: TypeAlias = Literal["written", "refused", "dropped"]
"""The fate of an Event, or of a change of a series: on the server, rejected by it, or too many at once."""


class _Key(msgspec.Struct, frozen=True):
    """Equal for Events of one series."""

    uid: str
    type: EventType
    reason: str
    action: str
    note: str
    related: str


class _Series:
    """An Event, and how often it occurred."""

    __slots__ = ("count", "event", "last", "name", "seen_at", "waiting", "written", "written_at")

    def __init__(self) -> None:
        self.event: Event | None = None
        """The Event while it waits to be written. Afterwards the key of the series is enough."""
        self.count = 0
        self.last: MicroTime | None = None
        self.seen_at = 0.0
        self.name = ""
        """Name of the Event on the server; empty before it is written."""
        self.written = 0
        """The count on the server."""
        self.written_at = 0.0
        self.waiting = False


class EventWriter(EventRecorder):
    """An `EventRecorder` that writes to the API server. `run` writes until it is cancelled."""

    def __init__(
        self, client: Client, controller: str, instance: str, *, count: Callable[[Fate], None] = lambda fate: None
    ) -> None:
        """Create a writer.

        controller, instance: who reports: the program, and the process.
        count: called with the fate of each Event.
        """
        self._client = client
        self._controller = controller
        self._instance = instance
        self._count = count
        self._clock = client.clock
        self._log = get_logger("kubewright.manager.events")
        self._known: OrderedDict[_Key, _Series] = OrderedDict()
        """Ordered by the time of their last Event."""
        self._backlog: deque[_Series] = deque()
        self._arrived = asyncio.Event()
        self._dropped = 0
        """Events dropped since the last log line."""

    async def run(self) -> None:
        """Write the recorded Events. If cancelled, write the waiting ones for up to `_FLUSH` seconds."""
        try:
            while True:
                await self._arrived.wait()
                await self._write_backlog()
        except asyncio.CancelledError:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH):
                    await self._write_backlog()
            self._log_dropped()
            raise

    def record(self, event: EventRecord, /) -> None:
        """Put an Event into the backlog, or count it in its series."""
        related = event.related.metadata.uid if event.related is not None else ""
        key = _Key(event.regarding.metadata.uid, event.type, event.reason, event.action, event.note, related)
        now = asyncio.get_running_loop().time()
        self._forget(now)
        series = self._known.get(key)
        if series is None:
            series = self._known[key] = _Series()
        else:
            self._known.move_to_end(key)
        series.count += 1
        series.last, series.seen_at = MicroTime.of(self._clock.now()), now
        if series.waiting:
            return
        if len(self._backlog) >= BACKLOG:
            self._drop()
            return
        series.event, series.waiting = self._event(event), True
        if series.written > 1 and (left := series.written_at + SERIES_INTERVAL - now) > 0:
            asyncio.get_running_loop().call_later(left, self._put, series)
        else:
            self._put(series)

    def _forget(self, now: float) -> None:
        """Forget series that have ended and, if there are too many, those without an Event for longest."""
        while self._known and (len(self._known) > MAX_SERIES or now - self._longest_quiet.seen_at > SERIES_ENDS):
            self._known.popitem(last=False)

    @property
    def _longest_quiet(self) -> _Series:
        return next(iter(self._known.values()))

    def _drop(self) -> None:
        self._count("dropped")
        if not self._dropped:
            asyncio.get_running_loop().call_later(_LOG_DROPPED_AFTER, self._log_dropped)
        self._dropped += 1

    def _log_dropped(self) -> None:
        if self._dropped:
            self._log.warning("Events dropped", count=self._dropped)
            self._dropped = 0

    def _put(self, series: _Series) -> None:
        self._backlog.append(series)
        self._arrived.set()

    async def _write_backlog(self) -> None:
        while self._backlog:
            series = self._backlog.popleft()
            event, series.event, series.waiting = series.event, None, False
            if event is None:
                continue
            try:
                await self._write(series, event)
            except KubewrightError as error:
                level = logging.DEBUG if _namespace_is_gone(error) else logging.WARNING
                self._log.log(level, "Event not written", reason=event.reason, error=str(error))
                self._count("refused")
            else:
                self._count("written")
        self._arrived.clear()

    async def _write(self, series: _Series, event: Event) -> None:
        from kubewright.apis.events.v1 import Event, EventSeries  # loads all of core/v1

        count, series.written_at = series.count, asyncio.get_running_loop().time()
        if series.name:
            observed = time.format_micro(series.last) if series.last else None
            patch = MergePatch({"series": {"count": count, "lastObservedTime": observed}})
            try:
                await self._client.patch(Event, patch, name=series.name, namespace=event.metadata.namespace)
            except NotFound:  # the server deletes Events after an hour
                series.name = ""
        if not series.name:
            event.event_time = series.last
            event.series = EventSeries(count=count, last_observed_time=series.last) if count > 1 else None
            series.name = (await self._client.create(event)).metadata.name
        series.written = count

    def _event(self, event: EventRecord) -> Event:
        from kubewright.apis.events.v1 import Event  # loads all of core/v1

        about = event.regarding.metadata
        name = f"{about.name[:_MAX_BASE]}.{uuid.uuid4().hex[:16]}"
        return Event(
            metadata=ObjectMeta(name=name, namespace=about.namespace or "default"),
            type=event.type,
            reason=event.reason,
            action=event.action,
            note=event.note.encode()[:_MAX_NOTE].decode("utf-8", "ignore"),
            regarding=reference_to(event.regarding),
            related=reference_to(event.related) if event.related is not None else None,
            reporting_controller=self._controller,
            reporting_instance=self._instance[-128:],
        )


def _namespace_is_gone(error: KubewrightError) -> bool:
    """Return whether the Event failed because its namespace is deleted: a create can only miss the namespace."""
    return isinstance(error, NotFound) or (isinstance(error, APIError) and error.namespace_is_ending)
