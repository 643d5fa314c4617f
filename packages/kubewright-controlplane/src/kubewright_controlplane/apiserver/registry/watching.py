"""Watches: a resource's commits as a stream of frames, filtered by a selection, in one representation.

Guarantees
    After the frames of the initial state, if requested, every later change of a selected object is sent in the order
    of commits, exactly once. Otherwise the watch ends with an ERROR frame with code 410.
    An object that leaves the selection is DELETED with the revision of the change; one that enters it is ADDED.
    A frame is encoded once for all watches with the same representation.

Follows apiserver's storage/cacher and KEP-3157 (streaming lists), KEP-956 (bookmarks).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Hashable, Iterator, Sequence
from typing import Protocol

from kubewright._runtime.clock import Clock, Timer
from kubewright.machinery.errors import APIError, Gone, InternalError, Invalid
from kubewright.machinery.fields import FieldError, forbidden, not_supported
from kubewright_controlplane.apiserver.registry.conversions import conversions_for, settle
from kubewright_controlplane.apiserver.registry.listing import matcher, parse_revision
from kubewright_controlplane.apiserver.registry.model import Resource
from kubewright_controlplane.apiserver.registry.objects import key_of, with_resource_version
from kubewright_controlplane.apiserver.registry.options import WatchOptions
from kubewright_controlplane.apiserver.storage.events import Entry, Event
from kubewright_controlplane.apiserver.storage.store import Store

BOOKMARK_SECONDS = 60.0
_SHORTEST_WATCH_SECONDS = 1800.0
_TOGETHER = 256
"""Objects or events that are looked at before others are served."""
_TOGETHER_BYTES = 512 << 10
_TOGETHER_COMPARISONS = 20_000
"""Labels and fields that are compared before others are served."""


class FrameEncoder(Protocol):
    """The encoding of a watch's events. Encodings with an equal `key` produce equal frames, which watches share."""

    @property
    def key(self) -> Hashable: ...

    def event(self, type: str, data: bytes) -> bytes:
        """Encode one event; `data` is the object as stored."""
        ...

    def first(self, type: str, data: bytes) -> bytes:
        """Encode the first event of a watch."""
        ...

    def bookmark(self, revision: int, *, initial_events_end: bool) -> bytes: ...

    def error(self, error: APIError) -> bytes: ...


class Watch:
    """One watch, as the body of a response: an iterator of chunks, each of one or more whole frames. Must be closed."""

    def __init__(
        self, store: Store, resource: Resource, options: WatchOptions, frames: FrameEncoder, clock: Clock
    ) -> None:
        _check(options)
        self._store = store
        self._frames = frames
        self._matches = matcher(resource, options.selection)
        self._finished = False
        self._expiry_timer: Timer | None = None
        self._bookmark_timer: Timer | None = None
        self._bookmark_due = False
        self._future_revision = 0
        """A future revision that the client wants to start at; 0: the watch starts now."""
        self._has_sent = False
        self._clock = clock
        self._resource = resource
        self._initial: Iterator[Entry] | None = None
        """The objects that precede the events and have not been looked at yet; None: all have been."""
        self._together = max(1, min(_TOGETHER, _TOGETHER_COMPARISONS // max(1, options.selection.comparisons)))
        self._has_more = False
        """Whether the last turn ended before all objects and events had been looked at."""
        self._initial_events_end = 0
        """The revision of the bookmark after them; 0: there is none."""
        self._error: APIError | None = None
        """Ends the watch."""
        self._open(resource, options)
        if not self._finished:
            seconds = options.timeout_seconds or _SHORTEST_WATCH_SECONDS * (1 + random.random())
            self._expiry_timer = clock.call_later(seconds, self._expire)
            if options.bookmarks:
                self._bookmark_timer = clock.call_later(BOOKMARK_SECONDS, self._request_bookmark)

    def _open(self, resource: Resource, options: WatchOptions) -> None:
        """Open a cursor, and find the objects that precede its events."""
        selection, store = options.selection, self._store
        asked = parse_revision(options.resource_version)
        name = selection.fields.exact("metadata.name")
        prefix = key_of(selection.namespace, name) if name and (selection.namespace or not resource.namespaced) else ""
        prefix = prefix or (f"{selection.namespace}/" if selection.namespace else "")
        state_first = options.initial_events if options.initial_events is not None else asked == 0
        since = store.revision if state_first or asked > store.revision else asked
        self._future_revision = asked if asked > store.revision else 0
        try:
            self._cursor = store.watch(resource.storage, since, prefix)
        except Gone as gone:
            self._cursor = store.watch(resource.storage, store.revision, prefix)
            self._fail(gone)
            return
        if not state_first:
            return
        entries = store.scan(resource.storage, namespace=selection.namespace)
        self._initial = iter(entries)
        if options.bookmarks and (options.initial_events or not options.resource_version):
            self._initial_events_end = store.revision

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> bytes:
        while True:
            if self._has_more:
                await asyncio.sleep(0)  # let others be served
            chunk = self._next() if self._resource.converter is None else await self._next_converted()
            if chunk:
                return chunk
            if self._has_more and not self._finished:
                continue
            if self._finished or self._cursor.closed:
                await self.aclose()
                raise StopAsyncIteration
            await self._cursor.wait()

    async def aclose(self) -> None:
        """End the watch. Harmless if it has ended."""
        self._finish()
        self._cursor.close()

    def _next(self) -> bytes:
        """Return the frames of all objects and events since the last call; empty if there are none."""
        initial, events = self._take()
        return self._encode(initial, events)

    async def _next_converted(self) -> bytes:
        """Return the same in the version of the resource. A webhook that fails ends the watch."""
        initial, events = self._take()
        has_sent = self._has_sent

        def encode() -> bytes:
            self._has_sent = has_sent
            return self._encode(initial, events)

        entries = [entry for event in events for entry in (event.entry, event.previous) if entry is not None]
        try:
            conversions = await conversions_for(self._resource, [*initial, *entries])
            return await settle(encode, conversions)
        except InternalError as error:
            self._fail(error)
            return self._encode((), ())

    def _take(self) -> tuple[Sequence[Entry], Sequence[Event]]:
        """Return the next initial objects, or, when all have been returned, the events since the last call."""
        initial = self._take_initial()
        self._has_more = self._initial is not None
        if initial or self._has_more or self._initial_events_end or self._finished:
            return initial, ()
        try:
            events = self._cursor.take(self._together, _TOGETHER_BYTES)
        except Gone as gone:
            self._fail(gone)
            return (), ()
        self._has_more = self._cursor.is_behind
        if self._future_revision:
            events = [event for event in events if event.revision > self._future_revision]
        return (), events

    def _take_initial(self) -> Sequence[Entry]:
        """Return the selected ones of the next objects that precede the events."""
        if self._initial is None:
            return ()
        size, selected = 0, list[Entry]()
        matches = self._matches
        for seen, entry in enumerate(self._initial, 1):
            if matches is None or matches(entry):
                selected.append(entry)
                size += len(entry.data)
            if seen >= self._together or size > _TOGETHER_BYTES:
                return selected
        self._initial = None
        return selected

    def _encode(self, initial: Sequence[Entry], events: Sequence[Event]) -> bytes:
        if self._error is not None:
            error, self._error = self._error, None
            return self._frames.error(error)
        if initial or self._initial is not None or self._initial_events_end:
            return self._encode_initial(initial)
        chunk = b"".join([self._event_frame(event) for event in events])
        if not chunk and self._bookmark_due and self._store.revision >= self._future_revision:
            chunk = self._frames.bookmark(self._store.revision, initial_events_end=False)
        self._bookmark_due = False if chunk else self._bookmark_due
        return chunk

    def _encode_initial(self, initial: Sequence[Entry]) -> bytes:
        frames = [self._frame("ADDED", entry.data) for entry in initial]
        if self._initial_events_end and self._initial is None:
            frames.append(self._frames.bookmark(self._initial_events_end, initial_events_end=True))
            self._initial_events_end = 0
        return b"".join(frames)

    def _event_frame(self, event: Event) -> bytes:
        matches = self._matches
        if matches is None:
            return self._shared_frame(event, event.type, event.entry)
        now = event.type != "DELETED" and matches(event.entry)
        before = event.previous is not None and matches(event.previous)
        if now:
            return self._shared_frame(event, "MODIFIED" if before else "ADDED", event.entry)
        if not before:
            return b""
        if event.type == "DELETED" or event.previous is None:
            return self._shared_frame(event, "DELETED", event.entry)
        return self._shared_frame(event, "DELETED", event.previous)

    def _shared_frame(self, event: Event, type: str, entry: Entry) -> bytes:
        """Return the frame of an event, encoded by the first watch that needs it."""
        if not self._has_sent:
            return self._frame(type, _data(event, entry))
        key = (self._frames.key, type)
        frame = event.frames.get(key)
        if frame is None:
            frame = event.frames[key] = self._frame(type, _data(event, entry))
        return frame

    def _frame(self, type: str, data: bytes) -> bytes:
        if self._has_sent:
            return self._frames.event(type, data)
        self._has_sent = True
        return self._frames.first(type, data)

    def _fail(self, error: APIError) -> None:
        """End the watch with an ERROR frame."""
        self._error = error
        self._finish()

    def _expire(self) -> None:
        self._finish()
        self._cursor.wake()

    def _request_bookmark(self) -> None:
        self._bookmark_due = True
        self._bookmark_timer = self._clock.call_later(BOOKMARK_SECONDS, self._request_bookmark)
        self._cursor.wake()

    def _finish(self) -> None:
        self._finished = True
        for timer in (self._expiry_timer, self._bookmark_timer):
            if timer is not None:
                timer.cancel()


def _data(event: Event, entry: Entry) -> bytes:
    """Return the object to send. If it left the selection, this is its last selected state at the revision of the
    change.
    """
    return entry.data if entry is event.entry else with_resource_version(entry.data, event.revision)


def _check(options: WatchOptions) -> None:
    errors: list[FieldError] = []
    match = options.resource_version_match
    if options.initial_events is not None and match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(forbidden("resourceVersionMatch", detail))
    if options.initial_events is None and match:
        detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        errors.append(forbidden("resourceVersionMatch", detail))
    if match not in ("", "NotOlderThan"):
        errors.append(not_supported("resourceVersionMatch", match, ("NotOlderThan",)))
    if errors:
        raise Invalid.of("ListOptions", "meta.k8s.io", "", errors)
