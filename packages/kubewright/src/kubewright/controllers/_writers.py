"""The writers between a reconciler and the API server. `controller_client` puts them in this order.

    SkipUnchangedApplies    skips applies that would change nothing (kubewright.cache)
    TraceWrites             adds a span for each write, if there is a tracer
    ReportUndeclared        logs a warning for a kind that the controller does not declare
    CountDeletes            counts deletes for the delete fuse, if there is one
    DetectHotLoops          compares objects that are written often
    FollowOwnWrites         notes which events to expect, if the controller needs one pass
    RecordOwnWrites         records the write, so that reads see it (kubewright.cache)
    RESTWriter              sends the write (kubewright.client)

Each writer wraps the next. All verbs and subresources pass through all writers.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from kubewright.cache._cache import Cache
from kubewright.cache._client import CachedClient, RecordOwnWrites
from kubewright.cache._entry import ObjectKey
from kubewright.client._client import Client
from kubewright.client._rest import RESTClient
from kubewright.client._write import Answer, RESTWriter, Verb, WriteCall, Writer, deletions_of
from kubewright.controllers._fuse import Fuse
from kubewright.controllers._hotloop import FrequentObject, HotLoops
from kubewright.controllers._onepass import FollowOwnWrites, OwnEvents
from kubewright.controllers._rbac import Undeclared
from kubewright.controllers._reconcile import CURRENT
from kubewright.controllers._tracing import Tracing
from kubewright.machinery.errors import KubewrightError
from kubewright.machinery.json import JSONObject, read_object
from kubewright.models import Object

T = TypeVar("T", bound=Object)


def controller_client(
    client: Client,
    cache: Cache,
    *,
    undeclared: Undeclared,
    loops: HotLoops,
    own_events: OwnEvents | None = None,
    fuse: Fuse | None = None,
    tracing: Tracing | None = None,
) -> CachedClient:
    """Return the client of one controller: it reads from `cache` and writes over the connections of `client`."""
    writer: Writer = RecordOwnWrites(RESTWriter(client.rest).write, cache).write
    if own_events is not None:
        writer = FollowOwnWrites(writer, own_events).write
    writer = DetectHotLoops(writer, loops, client.rest, cache).write
    if fuse is not None:
        writer = CountDeletes(writer, fuse, client).write
    writer = ReportUndeclared(writer, undeclared).write
    if tracing is not None:
        writer = TraceWrites(writer, tracing).write
    return CachedClient(client, cache, writer=writer, on_read=undeclared.read)


class TraceWrites:
    """Adds a span for each write."""

    def __init__(self, writer: Writer, tracing: Tracing) -> None:
        self._writer = writer
        self._tracing = tracing

    async def write(self, call: WriteCall[T], /) -> Answer[T]:
        plural = call.kind.__api__.plural
        resource = f"{plural}/{call.subresource}" if call.subresource else plural
        with self._tracing.write(call.method, resource, call.path):
            return await self._writer(call)


class ReportUndeclared:
    """Reports each resource that the controller writes without having declared it, once."""

    def __init__(self, writer: Writer, undeclared: Undeclared) -> None:
        self._writer = writer
        self._undeclared = undeclared

    def write(self, call: WriteCall[T], /) -> Awaitable[Answer[T]]:
        self._undeclared.write(call.kind, call.subresource)
        return self._writer(call)


class CountDeletes:
    """Counts deletes and evictions, and stops those that are too many for the controller's fuse."""

    def __init__(self, writer: Writer, fuse: Fuse, client: Client) -> None:
        self._writer = writer
        self._fuse = fuse
        self._client = client

    def write(self, call: WriteCall[T], /) -> Awaitable[Answer[T]]:
        deletes = call.verb == "delete" or call.verb == "deletecollection" or call.is_eviction
        return self._delete(call) if deletes and not call.dry_run else self._writer(call)

    async def _delete(self, call: WriteCall[T]) -> Answer[T]:
        if call.verb == "deletecollection":
            self._count(call.kind.__api__.plural, await self._matching(call))
        else:
            self._count(f'{call.kind.__api__.kind} "{ObjectKey(call.namespace, call.name)}"')
        return await self._writer(call)

    async def _matching(self, call: WriteCall[T]) -> int:
        """Return how many objects a delete of a collection matches."""
        accept = self._client.endpoint(call.kind).accept_list
        found = await self._client.rest.request("GET", call.path, call.query, accept=accept)
        return len(msgspec.json.decode(found, type=_Items).items or ())

    def _count(self, what: str, count: int = 1) -> None:
        attempt = CURRENT.get()
        if attempt is None or not attempt.allows_deletes:
            self._fuse.pass_through(what, count)


class _Items(msgspec.Struct, gc=False):
    items: list[msgspec.Raw] | None = None


_CHANGES: Final[frozenset[Verb]] = frozenset(("apply", "patch", "update"))


class DetectHotLoops:
    """Passes writes to the controller's hot loop detector, and reads the state before a suspicious write."""

    def __init__(self, writer: Writer, loops: HotLoops, rest: RESTClient, cache: Cache) -> None:
        self._writer = writer
        self._loops = loops
        self._rest = rest
        self._cache = cache

    async def write(self, call: WriteCall[T], /) -> Answer[T]:
        if call.dry_run:
            return await self._writer(call)
        if call.verb not in _CHANGES:
            answer = await self._writer(call)
            self._created_or_deleted(call, answer)
            return answer
        frequent = self._loops.frequent(call.path)
        before = await self._before(call, frequent) if frequent is not None else None
        answer = await self._writer(call)
        obj, attempt = answer.decode(), CURRENT.get()
        self._loops.written(obj)
        self._loops.wrote(call.path, obj, attempt)
        if before is not None:
            self._loops.compare(call.path, before, obj, attempt)
        return answer

    def _created_or_deleted(self, call: WriteCall[T], answer: Answer[T]) -> None:
        attempt = CURRENT.get()
        if attempt is not None and call.subresource != "token":
            attempt.progressed = True
        if call.verb != "create":
            for deletion in deletions_of(call, answer):
                key = ObjectKey(deletion.metadata.namespace, deletion.metadata.name)
                self._loops.deleted(call.kind, key, deletion.uid)
        elif call.answers_object:
            self._loops.written(answer.decode())

    async def _before(self, call: WriteCall[T], frequent: FrequentObject) -> JSONObject | None:
        """Return the document at the path before the write; None if it is unknown."""
        if frequent.needs_managers:
            with suppress(KubewrightError):  # then the other writer stays unknown, unless the cache shows it
                return read_object(await self._rest.request("GET", call.path, accept=call.accept))
        informer, last = self._cache.informer_or_none(call.kind), frequent.last
        entry = informer.lister.entry(frequent.key) if informer is not None and call.answers_object else None
        if entry is not None and (last is None or entry.resource_version > int(last.version or 0)):
            return read_object(entry.data)
        return last.document if last is not None else None
