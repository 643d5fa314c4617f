"""Writers that know the cache: they record own writes, and skip writes that would change nothing.

`CachedClient` wraps the sending writer with them. A controller adds more writers in between; see
`kubewright.controllers._writers`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, TypeVar

import msgspec

from kubewright.cache._cache import Cache
from kubewright.cache._copy import KindCopy
from kubewright.cache._entry import ObjectKey
from kubewright.cache._informer import copy_of
from kubewright.client._write import Answer, Deletion, Verb, WriteCall, Writer, deletions_of
from kubewright.machinery.errors import ConfigError
from kubewright.models import Object

T = TypeVar("T", bound=Object)


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

    async def __call__(self, call: WriteCall[T], /) -> Answer[T]:
        if call.is_binding and not call.dry_run:
            return await self._bind(call)
        answer = await self._writer(call)
        if call.dry_run:
            return answer
        if call.verb in _DELETES:
            for deletion in deletions_of(call, answer):
                key = ObjectKey(deletion.metadata.namespace or None, deletion.metadata.name)
                self._deleted(call.kind, key, deletion)
        elif call.answer_kind is call.kind:
            self._written(answer)
        elif call.is_eviction:
            self._evicted(call)
        else:
            self._written_through(call, answer)
        return answer

    def _copies(self, kind: type[Object]) -> list[KindCopy[Any]]:
        return [copy_of(each) for each in self._cache.informers_of(kind)]

    def _written(self, answer: Answer[T]) -> None:
        meta = answer.object.metadata
        version = int(meta.resource_version or 0)
        if not version:
            return
        key = ObjectKey(meta.namespace or None, meta.name)
        ends = meta.deletion_timestamp is not None and not meta.finalizers
        for copy in self._copies(answer.kind):
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
        for copy in self._copies(call.kind):
            if copy.store.get(key) is not None:
                copy.own_writes.wrote(key, int(meta.resource_version))

    async def _bind(self, call: WriteCall[T]) -> Answer[T]:
        key = ObjectKey(call.namespace, call.name)
        before = [(copy.own_writes, copy.own_writes.latest_version(key)) for copy in self._copies(call.kind)]
        answer = await self._writer(call)
        for writes, version in before:
            if version:
                writes.changed(key, version)
        return answer

    def _evicted(self, call: WriteCall[T]) -> None:
        """Record an eviction. Its answer has no uid, so the evicted Pod is taken from the cache."""
        key = ObjectKey(call.namespace, call.name)
        for copy in self._copies(call.kind):
            entry = copy.store.get(key)
            if entry is not None:
                copy.own_writes.deleted(key, entry.uid, 0)

    def _deleted(self, kind: type[Object], key: ObjectKey, deletion: Deletion) -> None:
        for copy in self._copies(kind):
            if copy.concerns(key, deletion.metadata.labels or {}):
                copy.own_writes.deleted(key, deletion.uid, deletion.version)


class SkipUnchangedApplies:
    """Answers an apply from the cache if it would change nothing, and rejects updates from partly cached objects."""

    def __init__(self, writer: Writer, cache: Cache) -> None:
        self._writer = writer
        self._cache = cache

    def __call__(self, call: WriteCall[T], /) -> Awaitable[Answer[T]]:
        if call.verb == "apply" and not call.dry_run:
            informer = self._cache.informer_or_none(call.kind)
            if informer is not None:
                return self._apply(call, copy_of(informer))
        elif call.verb == "update":
            self._check_update(call)
        return self._writer(call)

    async def _apply(self, call: WriteCall[T], copy: KindCopy[Any]) -> Answer[T]:
        key = ObjectKey(call.namespace, call.name)
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
            meta = answer.object.metadata
            copy.applied.remember(key, applier, call.body, meta.uid, int(meta.resource_version or 0))
        return answer

    def _check_update(self, call: WriteCall[T]) -> None:
        if self._cache.scope(call.kind).only is not None and call.answer_kind is call.kind:
            raise ConfigError(
                f"{call.kind.__api__.kind}: the cache holds only part of each object (Scope.only), and an update would "
                "remove the rest; send a patch, or read and update with a Client"
            )
