"""Brings the changes of one kind from the server, as long as it runs, even if the connection breaks.

It lists once, as a stream of the existing objects (`sendInitialEvents`) or in pages if the server has no such streams,
and watches from there. A stream ends often: by its time limit, a restart of the server, a proxy. Then the reflector
continues from the last resource version that it has seen, and nothing is lost.

Guarantees
    Changes are passed on in the order in which the server made them.
    Objects that were deleted while there was no stream are found, even if the server has forgotten the changes (410
    Gone): the new list replaces the old one as a whole.
    No failure ends it. It waits after each failure, twice as long each time up to `LIMIT` and with jitter, and no less
    than the server asks for (Retry-After).
    A stream may be quiet until its requested time is over: no server has to send bookmarks. A stream that does not end
    then is replaced by a new one. An object that cannot be read is logged and skipped.

Follows client-go's tools/cache Reflector and
https://kubernetes.io/docs/reference/using-api/api-concepts/#streaming-lists
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from kubewright._runtime.log import get_logger
from kubewright.cache._entry import Entry, EntryDecoder, ObjectKey
from kubewright.client._client import Client
from kubewright.client._lists import raw_pages
from kubewright.client._rest import Query
from kubewright.client._watch import Bookmark, RawEvent
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
"""How long a stream is asked to last: a time in between, so that those of many clients do not end together. Short,
since it is the end of a stream that tells one on which nothing happens from one that is dead.
"""

SLACK: Final = 30.0
"""Seconds by which a stream may overrun what was asked."""

QUIET: Final = 60.0
"""Seconds of a stream without news after which the server is asked whether it knows this resource version."""

PAGE_SIZE: Final = 500

MANY: Final = 1000
"""Objects of a kind above which it is worth while to pack their documents, and to take their list in large pieces."""

BATCH_DELAY: Final = 0.005
"""Seconds between two reads of a long streamed list. The server sends objects one by one, and waking up for each of
them would take a quarter of the CPU time of the list.
"""

LARGE: Final = 2048
"""Bytes of a document that is packed when it comes alone: of a smaller one, which may soon change again, packing
costs more than it saves. Of a list all are.
"""

BASE: Final = 0.5
"""Seconds to wait after a failure, give or take a half; doubled after each further failure in a row."""

LIMIT: Final = 16.0
"""The longest wait in seconds, give or take a half. A stream that lasted longer resets the wait to `BASE`."""

PATIENT_LIMIT: Final = 4.0
"""The same while a kind or a permission is missing: an administrator may be about to install or grant it."""

_MAX_DOUBLINGS: Final = 16

_log = get_logger("kubewright.cache")


Change: TypeAlias = tuple[bool, Entry[T]]
"""One event: whether the object was deleted, and what it is now or was at the end."""


class Sink(Protocol[T]):
    """Receives what a reflector gets."""

    def __len__(self) -> int:
        """How many objects are held."""
        ...

    def known(self, key: ObjectKey, /) -> Entry[T] | None:
        """Return what is held under a key."""
        ...

    def listing(self) -> None:
        """A list is about to be requested."""
        ...

    def replace(self, entries: Mapping[ObjectKey, Entry[T]], version: int) -> None:
        """These are all objects at a resource version; all others are deleted."""
        ...

    def apply(self, changes: Iterable[Change[T]], version: int) -> None:
        """These changes happened, in this order, and no others up to `version`."""
        ...

    def connected(self) -> None:
        """The last attempt succeeded."""
        ...

    def failed(self, error: Exception) -> None:
        """The last attempt failed; there will be another."""
        ...


class Step(NamedTuple):
    """What to do after a stream has ended."""

    delay: float
    """Seconds to wait first."""
    relist: bool
    """List again, because the position of the stream is of no use."""


class Recovery:
    """Remembers how the last attempts ended. An attempt without news does not reset the failures before it."""

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
        # If the kind is gone, its resource versions are of no use either.
        return Step(delay, relist=isinstance(failure, NotFound))

    def _backoff(self, limit: float = LIMIT) -> float:
        wait = BASE * 2.0 ** min(self._failures - 1, _MAX_DOUBLINGS)
        return min(wait, limit) * (0.5 + random.random())


class Reflector(Generic[T]):
    """Lists and watches one kind, or the part of it at `path` that `selection` gives, into a sink."""

    def __init__(
        self, client: Client, kind: type[T], sink: Sink[T], *, path: str, selection: Query, decoder: EntryDecoder[T]
    ) -> None:
        self._rest = client.rest
        self._clock = client.clock
        self._endpoint = client.endpoint(kind)
        self._sink = sink
        self._path = path
        self._selection = selection
        self._decoder = decoder
        self._recovery = Recovery()
        self._version: int | None = None
        """The position to continue from; None if everything has to be listed first."""
        self._listing: dict[ObjectKey, Entry[T]] | None = None
        """What has come of a list that is not complete."""
        self._streams_lists = True
        self._progressed = False
        self._quiet = False
        """Whether nothing new came on the last stream, which lasted."""

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
        """List if need be, then watch until the stream ends."""
        if self._quiet and await self._was_restored():
            self._version = None
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
        """Return whether the server has not reached the version that we are at.

        A server that was restored from an older state sends nothing on a watch from such a version, but it rejects a
        list that must not be older.
        """
        if self._version is None:
            return False
        not_older = {"limit": "1", "resourceVersion": str(self._version), "resourceVersionMatch": "NotOlderThan"}
        try:
            await self._rest.request(
                "GET", self._path, {**self._selection, **not_older}, accept=self._endpoint.accept_list
            )
        except APIError as error:  # whatever else it is, the watch will tell
            return any(cause.reason == "ResourceVersionTooLarge" for cause in error.causes)
        return False

    async def _recover(self, failure: Exception | None, lasted: float) -> None:
        """Get over the end of a stream."""
        delay, relist = self._recovery.step(failure, progressed=self._progressed, lasted=lasted)
        if relist:
            self._version = None
        if failure is not None:
            self._sink.failed(failure)
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
        """All there is, in pages; from the start and in one piece when the server lost the snapshot on the way."""
        try:
            await self._list_pages(PAGE_SIZE)
        except Gone:
            await self._list_pages(0)

    async def _list_pages(self, limit: int) -> None:
        listing = self._listing = {}
        version = ""
        self._sink.listing()
        async for page in raw_pages(
            self._rest, self._path, self._selection, limit=limit, accept=self._endpoint.accept_list
        ):
            listing.update((entry.key, entry) for entry in filter(None, map(self._entry, page.items or ())))
            version = page.resource_version
        self._complete(listing, int(version))

    async def _watch(self) -> None:
        """Follow one stream. All existing objects come first if there is no version to continue from."""
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
            self._sink.listing()
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        longest = seconds + SLACK
        deadline = self._clock.monotonic() + longest
        stream = self._rest.watch(self._path, query, accept=self._endpoint.accept, silence=longest)
        async with aclosing(stream) as batches:
            async for batch in batches:
                if self._listing is None:
                    self._sink.connected()
                self._take(batch)
                if self._listing is not None and len(self._listing) >= MANY:
                    await self._clock.sleep(BATCH_DELAY)
                if self._clock.monotonic() > deadline:
                    break
        if self._listing is not None:
            self._streams_lists = False

    def _take(self, batch: list[RawEvent]) -> None:
        """Hand on what came together, in one go."""
        changes: list[Change[T]] = []
        try:
            for event in batch:
                if event.type == "BOOKMARK":
                    self._mark(event.bookmark())
                elif event.type == "ERROR":
                    raise event.error()
                elif (entry := self._entry(event.object)) is not None:
                    deleted = event.type == "DELETED"
                    if self._listing is None:
                        changes.append((deleted, entry))
                        self._advance(entry.resource_version)
                    elif deleted:
                        self._listing.pop(entry.key, None)
                    else:
                        self._listing[entry.key] = entry
        finally:
            if self._version is not None:
                self._sink.apply(changes, self._version)

    def _mark(self, bookmark: Bookmark) -> None:
        version = int(bookmark.resource_version)
        if self._listing is None:
            self._advance(version)
        elif bookmark.initial_events_end:
            self._complete(self._listing, version)

    def _advance(self, version: int) -> None:
        self._progressed = self._progressed or version != self._version
        self._version = version

    def _complete(self, listed: Mapping[ObjectKey, Entry[T]], version: int) -> None:
        self._version = version
        self._listing = None
        self._sink.replace(listed, version)
        self._sink.connected()

    def _entry(self, raw: msgspec.Raw) -> Entry[T] | None:
        """Return the entry of a document; None if it can't be read."""
        if self._listing is None:
            pack = memoryview(raw).nbytes >= LARGE and len(self._sink) >= MANY
        else:
            pack = max(len(self._sink), len(self._listing)) >= MANY
        try:
            return self._decoder.decode(raw, self._sink.known, pack=pack)
        except DecodeError as error:
            _log.warning("Object skipped, it cannot be read", resource=self._endpoint.resource, error=str(error))
            return None
