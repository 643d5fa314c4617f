"""Follows the changes of one kind on the server, across broken connections.

The reflector lists once, as a stream of the existing objects (`sendInitialEvents`) or in pages if the server does not
support such streams. Then it watches. A stream often ends: by its time limit, a restart of the server or a proxy. The
reflector then continues from the last resource version that it received, and loses no change.

Guarantees
    Changes are passed on in the order in which the server made them.
    Deletes that happen while the stream is disconnected are reported, even if the server no longer has the changes (410
    Gone): a new list then replaces the old list.
    No failure ends the reflector. After each failure it waits, with exponential backoff up to `LIMIT` and jitter, and
    at least as long as the server requests (Retry-After).
    A stream may be silent until its requested duration is over, because servers need not send bookmarks. A stream that
    does not end then is replaced. An object that cannot be read is logged and skipped.

Follows client-go's tools/cache Reflector and
https://kubernetes.io/docs/reference/using-api/api-concepts/#streaming-lists
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from contextlib import aclosing
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from kubewright._runtime.log import get_logger
from kubewright.cache._copy import Change, KindCopy
from kubewright.cache._entry import Entry, ObjectKey
from kubewright.client._client import Client
from kubewright.client._lists import raw_pages
from kubewright.client._rest import Query, RawEvent, check_json
from kubewright.machinery.errors import (
    APIError,
    BadRequest,
    DecodeError,
    Forbidden,
    Gone,
    Invalid,
    KubewrightError,
    NotFound,
)
from kubewright.models import Object

T = TypeVar("T", bound=Object)

STREAM_SECONDS: Final = (120, 240)
"""The range of the requested duration of a stream in seconds. It is random, so that the streams of many clients do not
end together, and short, because only the end of a stream distinguishes a silent stream from a dead one.
"""

SLACK: Final = 30.0
"""Seconds by which a stream may exceed its requested duration."""

QUIET: Final = 60.0
"""Seconds of a silent stream after which the reflector checks whether the server has this resource version."""

PAGE_SIZE: Final = 500

MANY: Final = 1000
"""Number of objects of a kind above which documents are packed and the list is read in large pieces."""

BATCH_DELAY: Final = 0.005
"""Seconds between two reads of a long streamed list. The server sends objects one by one, and waking up for each of
them would take a quarter of the CPU time of the list.
"""

LARGE: Final = 2048
"""Minimum size in bytes of a single document that is packed. Packing a smaller document, which may soon change again,
costs more than it saves. All documents of a list are packed.
"""

BASE: Final = 0.5
"""Seconds to wait after a failure, with 50 % jitter; doubled after each further failure in a row."""

LIMIT: Final = 16.0
"""The longest wait in seconds, with 50 % jitter. A stream that lasts longer resets the wait to `BASE`."""

PATIENT_LIMIT: Final = 4.0
"""The longest wait while a kind or permission is missing. An administrator may add it soon."""

_MAX_DOUBLINGS: Final = 16

_log = get_logger("kubewright.cache")


class Step(NamedTuple):
    """What to do after a stream has ended."""

    delay: float
    """Seconds to wait first."""
    relist: bool
    """Whether to list again, because the position of the stream is not usable."""


class Recovery:
    """Counts failed attempts. An attempt without new changes does not reset earlier failures."""

    def __init__(self) -> None:
        self._failures = 0
        self._expiries = 0

    def step(self, failure: Exception | None, *, progressed: bool, lasted: float) -> Step:
        """Return what to do after an attempt of `lasted` seconds. `failure` is None if the server ended it.

        `progressed`: the attempt received changes that had not been seen.
        """
        if progressed or lasted > LIMIT:
            self._failures = self._expiries = 0
        self._failures += 1
        if failure is None:
            return Step(0.0 if self._failures == 1 else self._backoff(), relist=False)
        if isinstance(failure, Gone):
            self._expiries += 1
            return Step(0.0 if self._expiries == 1 else self._backoff(), relist=True)
        delay = self._backoff(PATIENT_LIMIT if isinstance(failure, Forbidden | NotFound) else LIMIT)
        if isinstance(failure, APIError):
            delay = max(delay, failure.retry_after or 0.0)
        # If the kind is gone, its resource versions are not usable either.
        return Step(delay, relist=isinstance(failure, NotFound))

    def _backoff(self, limit: float = LIMIT) -> float:
        wait = BASE * 2.0 ** min(self._failures - 1, _MAX_DOUBLINGS)
        return min(wait, limit) * (0.5 + random.random())


class Reflector(Generic[T]):
    """Lists and watches the objects of one namespace, or all, that `selection` selects, and keeps a copy up to date."""

    def __init__(self, client: Client, copy: KindCopy[T], namespace: str | None, *, selection: Query) -> None:
        self.error: Exception | None = None
        """Why the last attempt to list or watch failed; None if it succeeded."""
        self._rest = client.rest
        self._clock = client.clock
        self._endpoint = client.endpoint(copy.kind)
        self._copy = copy
        self._namespace = namespace
        self._path = self._endpoint.collection(namespace)
        self._selection = selection
        self._recovery = Recovery()
        self._must_list = True
        """Whether a list is required before the next watch."""
        self._writes_before_list = 0
        self._listing: dict[ObjectKey, Entry[T]] | None = None
        """The received part of an incomplete list."""
        self._streams_lists = True
        self._progressed = False
        self._quiet = False
        """Whether the last stream lasted without new changes."""

    @property
    def _version(self) -> int | None:
        """The version to continue from, which is that of the copy; None if a list is required first."""
        return None if self._must_list else self._copy.store.version_of(self._namespace)

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            started = self._clock.monotonic()
            self._progressed = False
            failure: Exception | None = None
            try:
                await self._follow()
            except KubewrightError as error:
                failure = error
            except Exception as error:  # noqa: BLE001 - without a watch, nothing would notice changes
                _log.exception("Watch failed unexpectedly", resource=self._endpoint.resource)
                failure = error
            lasted = self._clock.monotonic() - started
            self._quiet = lasted > QUIET and not self._progressed
            await self._recover(failure, lasted)

    async def _follow(self) -> None:
        """List if necessary, then watch until the stream ends."""
        if self._quiet and await self._was_restored():
            self._must_list = True
        if self._version is None and self._streams_lists:
            try:
                await self._watch()
            except (BadRequest, Invalid) as error:
                if self._version is not None:
                    raise
                _log.info(
                    "Listed in pages, the server streams no lists", resource=self._endpoint.resource, error=str(error)
                )
                self._streams_lists = False
            else:
                return
        if self._version is None:
            await self._list()
        await self._watch()

    async def _was_restored(self) -> bool:
        """Return whether the server has not reached the current version of this reflector.

        A server that was restored from an older state sends no events on a watch from such a version. But it rejects a
        list that requires at least this version.
        """
        if self._version is None:
            return False
        not_older = {"limit": "1", "resourceVersion": str(self._version), "resourceVersionMatch": "NotOlderThan"}
        try:
            await self._rest.request(
                "GET", self._path, {**self._selection, **not_older}, accept=self._endpoint.accept_list
            )
        except APIError as error:  # any other error recurs in the watch
            return any(cause.reason == "ResourceVersionTooLarge" for cause in error.causes)
        return False

    async def _recover(self, failure: Exception | None, lasted: float) -> None:
        """Handle the end of a stream: wait, and decide where to continue."""
        delay, relist = self._recovery.step(failure, progressed=self._progressed, lasted=lasted)
        if relist:
            self._must_list = True
        if failure is not None:
            self.error = failure
            self._copy.changed()
            level = logging.WARNING if delay else logging.INFO
            _log.log(
                level,
                "Watch failed, retrying",
                resource=self._endpoint.resource,
                error=str(failure),
                seconds=round(delay, 1),
            )
        await self._clock.sleep(delay)

    async def _list(self) -> None:
        """List all objects in pages. If the server loses the snapshot, list again in a single page."""
        try:
            await self._list_pages(PAGE_SIZE)
        except Gone:
            await self._list_pages(0)

    async def _list_pages(self, limit: int) -> None:
        listing = self._listing = {}
        version = ""
        self._writes_before_list = self._copy.own_writes.count
        async for page in raw_pages(
            self._rest, self._path, self._selection, limit=limit, accept=self._endpoint.accept_list
        ):
            listing.update((entry.key, entry) for entry in filter(None, map(self._entry, page.items or ())))
            version = page.resource_version
        self._complete(listing, int(version))

    async def _watch(self) -> None:
        """Follow one stream. Without a version to continue from, the stream starts with all existing objects."""
        seconds = random.uniform(*STREAM_SECONDS)
        query = {
            **self._selection,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": f"{seconds:.0f}",
            "resourceVersion": None if self._version is None else str(self._version),
        }
        self._listing = None
        if self._version is None:
            self._listing = {}
            self._writes_before_list = self._copy.own_writes.count
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        longest = seconds + SLACK
        deadline = self._clock.monotonic() + longest
        stream = self._rest.watch(self._path, query, accept=self._endpoint.accept, silence=longest)
        async with aclosing(stream) as batches:
            async for batch in batches:
                if self._listing is None:
                    self.error = None
                self._take(batch)
                if self._listing is not None and len(self._listing) >= MANY:
                    await self._clock.sleep(BATCH_DELAY)
                if self._clock.monotonic() > deadline:
                    break
        if self._listing is not None:
            self._streams_lists = False

    def _take(self, batch: list[RawEvent]) -> None:
        """Apply the changes that arrived together."""
        changes: list[Change[T]] = []
        version = self._version
        try:
            for event in batch:
                if event.type == "BOOKMARK":
                    bookmark = event.bookmark()
                    reached = int(bookmark.resource_version)
                    if self._listing is not None:
                        if bookmark.initial_events_end:
                            self._complete(self._listing, reached)
                            version = reached
                        continue
                elif event.type == "ERROR":
                    raise event.error()
                elif (entry := self._entry(event.object)) is None:
                    continue
                elif self._listing is None:
                    changes.append((event.type == "DELETED", entry))
                    reached = entry.resource_version
                elif event.type == "DELETED":
                    self._listing.pop(entry.key, None)
                    continue
                else:
                    self._listing[entry.key] = entry
                    continue
                self._progressed = self._progressed or reached != version
                version = reached
        finally:
            if version is not None:
                self._copy.apply(self._namespace, changes, version)

    def _complete(self, listed: Mapping[ObjectKey, Entry[T]], version: int) -> None:
        self._listing = None
        self._copy.replace(self._namespace, listed, version, writes_before=self._writes_before_list)
        self._must_list = False
        self.error = None

    def _entry(self, raw: msgspec.Raw) -> Entry[T] | None:
        """Return the entry of a document; None if it can't be read. Raises DecodeError if it is not JSON."""
        if self._listing is None:
            pack = memoryview(raw).nbytes >= LARGE and len(self._copy.store) >= MANY
        else:
            pack = max(len(self._copy.store), len(self._listing)) >= MANY
        try:
            return self._copy.decoder.decode(raw, self._copy.store.get, pack=pack)
        except DecodeError as error:
            check_json(raw)
            _log.warning("Object skipped, it cannot be read", resource=self._endpoint.resource, error=str(error))
            return None
