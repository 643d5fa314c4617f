"""A client that reads from the cache and writes to the server, and whose reads see its own writes.

After a write, a read of that key waits until the cache has reached the version of the write, or shows the deletion. A
list of a kind waits for all earlier writes of this client to that kind. If the cache does not get there within five
seconds, the read goes to the server instead: slow, but never stale. While the manager stops, so does a read of a kind
whose watch has lost its connection.

Guarantees
    A get or list returns nothing older than the last write of this client.
    An apply that would change nothing is not sent, if the cache can tell.
Not guaranteed
    Reads that see the writes of other clients and processes. After a Pod's `binding`, whose answer has no version, a
    read waits for any change of the Pod.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec

from kubewright._runtime.log import get_logger
from kubewright.cache._cache import Cache, is_ending
from kubewright.cache._copy import KindCopy
from kubewright.cache._entry import ObjectKey, key_of
from kubewright.cache._informer import Informer, copy_of
from kubewright.client._client import Client
from kubewright.client._lists import Fields, Labels, ObjectList, Reader
from kubewright.client._write import Answer, Deletion, RESTWriter, Verb, WriteCall, Writer, deletions_of
from kubewright.machinery.errors import ConfigError, ConnectionFailed
from kubewright.models import Object

T = TypeVar("T", bound=Object)

_log = get_logger("kubewright.cache")

_WRITE_TIMEOUT: Final = 5.0
"""Seconds that a read waits for the cache to show a write."""


class CachedClient(Client):
    """A `Client` whose `get` and `list` read from `cache`. Everything else goes to the server."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        *,
        writer: Writer | None = None,
        on_read: Callable[[type[Object]], None] | None = None,
    ) -> None:
        """Write over the connections of `client`.

        `writer` replaces the default writer, which records own writes and sends them; see `kubewright.cache._client`.
        `on_read` is called with the kind of each read from the cache.
        """
        super().__init__(
            transport=client.rest.transport,
            user_agent=client.rest.user_agent,
            field_manager=client.field_manager,
            field_validation=client.field_validation,
            on_warning=client.rest.on_warning,
            clock=client.clock,
        )
        self.cache = cache
        self._on_read = on_read
        recorded = writer or RecordOwnWrites(RESTWriter(self.rest).write, cache).write
        self.writer = SkipUnchangedApplies(recorded, cache).write
        self.uncached: Reader = Client(
            transport=client.rest.transport, user_agent=client.rest.user_agent, clock=client.clock
        )
        """Reads from the server: for objects that are read rarely, or right before an irreversible action."""

    # ---- reading

    async def get(self, kind: type[T], name: str, *, namespace: str | None = None) -> T:
        """Return the object of that name, from the cache. Raises NotFound."""
        self.endpoint(kind).check(name, namespace)  # raises ConfigError for a missing or superfluous namespace
        if self._on_read is not None:
            self._on_read(kind)
        informer = await self.cache.ready(kind, namespace)
        key = key_of(namespace, name)
        if copy_of(informer).own_writes.seen(key) or await self._caught_up(informer, key):
            return informer.get(key)
        return await super().get(kind, name, namespace=namespace)

    async def list(
        self,
        kind: type[T],
        *,
        namespace: str | None = None,
        labels: Labels = None,
        fields: Fields = None,
        page_size: int = 500,
        owner: str | None = None,
        index: tuple[str, str] | None = None,
    ) -> ObjectList[T]:
        """Return the objects that match all arguments, from the cache; see `Cache.list`."""
        if self._on_read is not None:
            self._on_read(kind)
        informer = await self.cache.ready(kind, namespace)
        if await self._caught_up(informer, None):
            return await self.cache.list(
                kind, namespace=namespace, labels=labels, fields=fields, owner=owner, index=index
            )
        found = ObjectList[T]()
        for each in (namespace,) if namespace else informer.namespaces:
            part = await super().list(kind, namespace=each, labels=labels, fields=fields, page_size=page_size)
            found.items += part.items
            found.resource_version = part.resource_version
        if owner is not None:
            found.items = [each for each in found if owner in (ref.uid for ref in each.metadata.owner_references)]
        if index is not None:
            name, value = index
            indexer = self.cache.scope(kind).indexers[name]
            found.items = [each for each in found if value in indexer(each)]
        return found

    async def _caught_up(self, informer: Informer[Any], key: ObjectKey | None) -> bool:
        """Wait until the cache shows the writes of this client to `key`, or to all keys. Returns whether it does."""
        copy = copy_of(informer)
        writes = copy.own_writes
        count = writes.count
        if any(write.overdue for write in writes.unseen(key, count)):
            return False

        def is_decided() -> bool:
            cut_off = is_ending(self.cache) and isinstance(informer.last_error, ConnectionFailed)
            return cut_off or not any(writes.unseen(key, count))

        began = self.clock.monotonic()
        await copy.until(is_decided, _WRITE_TIMEOUT)
        if not any(writes.unseen(key, count)):
            return True
        for write in writes.unseen(key, count):
            write.overdue = True
        _log.warning(
            "Own write not yet in the cache, read from the server",
            resource=informer.resource,
            seconds=round(self.clock.monotonic() - began, 1),
            error=str(informer.last_error or "") or None,
        )
        return False


_DELETES: Final[frozenset[Verb]] = frozenset(("delete", "deletecollection"))


class RecordOwnWrites:
    """Records every write in the cache, so that reads wait until the cache shows it.

    Guarantees
        It records writes of objects and of their subresources, deletes, evictions, and bindings.
    Not guaranteed
        That a read waits for the event of a binding, if another client changes the Pod at the same time: the answer has
        no version, so any later version of the Pod counts.
    """

    def __init__(self, writer: Writer, cache: Cache) -> None:
        self._writer = writer
        self._cache = cache

    async def write(self, call: WriteCall[T], /) -> Answer[T]:
        if call.verb == "create" and call.is_binding and not call.dry_run:
            return await self._bind(call)
        answer = await self._writer(call)
        if call.dry_run:
            return answer
        if call.verb in _DELETES:
            for deletion in deletions_of(call, answer):
                key = ObjectKey(deletion.metadata.namespace, deletion.metadata.name)
                self._deleted(call.kind, key, deletion)
        elif call.answer_kind is call.kind:
            self._written(answer)
        elif call.is_eviction:
            self._evicted(call)
        else:
            self._written_through(call, answer)
        return answer

    def _written(self, answer: Answer[T]) -> None:
        meta = answer.decode().metadata
        version = int(meta.resource_version or 0)
        if not version:
            return
        key = key_of(meta.namespace, meta.name)
        ends = meta.deletion_timestamp is not None and not meta.finalizers
        for copy in map(copy_of, self._cache.informers_of(answer.kind)):
            if not copy.concerns(key, meta.labels):
                continue
            if ends:
                copy.own_writes.deleted(key, meta.uid, version)
            else:
                copy.own_writes.wrote(key, version, answer.data)

    def _written_through(self, call: WriteCall[T], answer: Answer[T]) -> None:
        """Record a write of a subresource whose answer has the object's new version, such as `scale`."""
        meta = msgspec.json.decode(answer.data, type=Deletion).metadata
        if not meta.resource_version or meta.name != call.name:
            return
        key = ObjectKey(call.namespace, call.name)
        for copy in map(copy_of, self._cache.informers_of(call.kind)):
            if copy.store.get(key) is not None:
                copy.own_writes.wrote(key, int(meta.resource_version))

    async def _bind(self, call: WriteCall[T]) -> Answer[T]:
        key = ObjectKey(call.namespace, call.name)
        before = [
            (copy.own_writes, copy.own_writes.latest_version(key))
            for copy in map(copy_of, self._cache.informers_of(call.kind))
        ]
        answer = await self._writer(call)
        for writes, version in before:
            if version:
                writes.changed(key, version)
        return answer

    def _evicted(self, call: WriteCall[T]) -> None:
        """Record an eviction. Its answer has no uid, so the evicted Pod is taken from the cache."""
        key = ObjectKey(call.namespace, call.name)
        for copy in map(copy_of, self._cache.informers_of(call.kind)):
            entry = copy.store.get(key)
            if entry is not None:
                copy.own_writes.deleted(key, entry.uid, 0)

    def _deleted(self, kind: type[Object], key: ObjectKey, deletion: Deletion) -> None:
        for copy in map(copy_of, self._cache.informers_of(kind)):
            if copy.concerns(key, deletion.metadata.labels or {}):
                copy.own_writes.deleted(key, deletion.uid, deletion.version)


class SkipUnchangedApplies:
    """Answers an apply from the cache if it would change nothing, and rejects updates from partly cached objects."""

    def __init__(self, writer: Writer, cache: Cache) -> None:
        self._writer = writer
        self._cache = cache

    def write(self, call: WriteCall[T], /) -> Awaitable[Answer[T]]:
        if call.verb == "apply" and not call.dry_run:
            informer = self._cache.informer_or_none(call.kind)
            if informer is not None:
                return self._apply(call, copy_of(informer))
        elif call.verb == "update":
            self._check_update(call)
        return self._writer(call)

    async def _apply(self, call: WriteCall[T], copy: KindCopy[Any]) -> Answer[T]:
        key = key_of(call.namespace, call.name)
        applier = (call.query["fieldManager"] or "", call.subresource or None)
        entry = copy.store.get(key)
        if (
            entry is not None
            and not call.create_only
            and call.uid in ("", entry.uid)
            and call.resource_version in ("", str(entry.resource_version))
            and copy.own_writes.seen(key)
            and copy.applied.holds(entry, applier, call.body)
        ):
            return Answer(call.answer_kind, entry.data)
        answer = await self._writer(call)
        if copy.store.get(key) is not None or not copy.own_writes.seen(key):  # not yet deleted again
            meta = answer.decode().metadata
            copy.applied.remember(key, applier, call.body, meta.uid, int(meta.resource_version or 0))
        return answer

    def _check_update(self, call: WriteCall[T]) -> None:
        if self._cache.scope(call.kind).only is not None and call.answer_kind is call.kind:
            raise ConfigError(
                f"{call.kind.__api__.kind}: the cache holds only part of each object (Scope.only), and an update would "
                "remove the rest; send a patch, or read and update with a Client"
            )
