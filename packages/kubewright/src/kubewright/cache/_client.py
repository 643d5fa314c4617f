"""A client that reads from the cache and writes to the server, and whose reads see its own writes.

After a write, a read of that key waits until the cache has reached the version that the write made, or has seen the
deletion; a list of a kind waits for all that this client had written of the kind by then. When the cache does not get
there within five seconds the read goes to the server instead: slow, never stale.

Guarantees
    A get or list gives nothing older than what this client's last write of it made.
    An apply that says what the last one of that object said, while all of it still holds, is not sent.
Not guaranteed
    To see what others wrote, through another client or another process, or what was written through `subresource`.
"""

from __future__ import annotations

import builtins
from typing import Any, Final, TypeVar

import msgspec

from kubewright._runtime.log import get_logger
from kubewright.cache._cache import Cache
from kubewright.cache._entry import ObjectKey
from kubewright.cache._informer import Informer
from kubewright.client._client import Client, FieldValidation
from kubewright.client._lists import Fields, Labels, ObjectList
from kubewright.client._reader import Reader
from kubewright.client._rest import Query
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject
from kubewright.models import Object, codec

T = TypeVar("T", bound=Object)

_log = get_logger("kubewright.cache")

_PATIENCE: Final = 5.0
"""Seconds for the cache to see a write."""


class CachedClient(Client):
    """Has the methods of a `Client`; `get` and `list` read `cache`, all else goes to the server."""

    def __init__(self, client: Client, cache: Cache) -> None:
        """Writes as `client` would, over the same connections."""
        super().__init__(
            client.rest.transport,
            user_agent=client.rest.user_agent,
            field_manager=client.field_manager,
            field_validation=client.field_validation,
            on_warning=client.rest.on_warning,
            clock=client.clock,
        )
        self.cache = cache
        self.uncached: Reader = Client(client.rest.transport, user_agent=client.rest.user_agent, clock=client.clock)
        """Reads from the server: what is looked at too rarely to be kept, or for the last time before a loss."""

    # ---- reading

    async def get(self, kind: type[T], name: str, *, namespace: str | None = None) -> T:
        """The object of that name, from the cache. Raises NotFound."""
        self.endpoint(kind).item(name, namespace)  # refuses what could only mean something else
        informer = await self.cache.ready(kind, namespace)
        key = ObjectKey(namespace or None, name)
        if await self._caught_up(informer, key):
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
        """The objects that match all that is given, from the cache; see `Cache.list`."""
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
        """Wait for the cache to see what this client has written of `key`, or of all keys: whether it did."""
        writes = informer.own_writes
        if key is not None and writes.seen(key):
            return True
        count = writes.count
        if any(write.overdue for write in writes.unseen(key, count)):
            return False
        if await informer.wait_until(lambda: not any(writes.unseen(key, count)), _PATIENCE):
            return True
        for write in writes.unseen(key, count):
            write.overdue = True
        _log.warning(
            "The cache has not seen a write of ours in time: reading from the server",
            resource=informer.resource,
            seconds=_PATIENCE,
            error=str(informer.last_error or "") or None,
        )
        return False

    # ---- writing

    async def update(
        self,
        obj: T,
        *,
        subresource: str | None = None,
        dry_run: bool = False,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
    ) -> T:
        """Replace the object with `obj`. Raises Conflict when it changed since `obj` was read, and ConfigError where
        the cache has but a part of each object.
        """
        if self.cache.scope(type(obj)).only is not None:
            raise ConfigError(
                f"{obj.kind}: of each object the cache has a part (Scope.only), and an update would remove the rest; "
                "send a patch, or read and update with a Client"
            )
        return await super().update(
            obj,
            subresource=subresource,
            dry_run=dry_run,
            field_manager=field_manager,
            field_validation=field_validation,
        )

    def _written(self, method: str, path: str, obj: Object) -> None:
        version = _version(obj)
        if not version:
            return
        key, labels = _key(obj), obj.metadata.labels
        ends = obj.metadata.deletion_timestamp is not None and not obj.metadata.finalizers
        for informer in self.cache.informers(type(obj)):
            if not informer.concerns(key, labels):
                continue
            if ends:
                informer.own_writes.deleted(key, obj.metadata.uid, version)
            else:
                informer.own_writes.wrote(key, version, codec.decoded_from(obj))

    async def _apply(self, obj: T, subresource: str | None, query: Query, body: bytes) -> T:
        informer = self.cache.known(type(obj))
        if informer is None or query.get("dryRun"):
            return await super()._apply(obj, subresource, query, body)
        key = _key(obj)
        applier = (query.get("fieldManager") or "", subresource)
        entry = informer.store.get(key)
        if entry is not None and informer.own_writes.seen(key) and informer.applied.holds(entry, applier, body):
            return entry.decode()
        applied = await super()._apply(obj, subresource, query, body)
        if informer.store.get(key) is not None or not informer.own_writes.seen(key):  # it is not gone already
            informer.applied.remember(key, applier, body, applied.metadata.uid, _version(applied))
        return applied

    async def _delete(self, kind: type[Object], name: str, namespace: str | None, options: JSONObject) -> bytes:
        data = await super()._delete(kind, name, namespace, options)
        if "dryRun" not in options:
            self._deleted(kind, ObjectKey(namespace or None, name), _decode_deletion(data))
        return data

    async def _delete_all(self, kind: type[Object], path: str, query: Query, options: JSONObject) -> bytes:
        data = await super()._delete_all(kind, path, query, options)
        if "dryRun" not in options:
            for each in _decode_deleted_list(data).items or ():
                self._deleted(kind, ObjectKey(each.metadata.namespace or None, each.metadata.name), each)
        return data

    def _deleted(self, kind: type[Object], key: ObjectKey, answer: Deletion) -> None:
        for informer in self.cache.informers(kind):
            if informer.concerns(key, answer.metadata.labels or {}):
                informer.own_writes.deleted(key, answer.uid, answer.version)


class _DeletedMetadata(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None


class _Details(msgspec.Struct, gc=False):
    uid: str = ""


class Deletion(msgspec.Struct, gc=False):
    """The answer to a deletion: the object as it is now, or a Status that says what was deleted."""

    metadata: _DeletedMetadata = msgspec.field(default_factory=_DeletedMetadata)
    details: _Details | None = None

    @property
    def uid(self) -> str:
        return self.details.uid if self.details else self.metadata.uid

    @property
    def version(self) -> int:
        return int(self.metadata.resource_version or 0)


class _DeletedList(msgspec.Struct, gc=False):
    items: builtins.list[Deletion] | None = None


# Made on import: msgspec can't learn the same class in two threads at once.
_decode_deletion: Final = msgspec.json.Decoder(Deletion).decode
_decode_deleted_list: Final = msgspec.json.Decoder(_DeletedList).decode


def _key(obj: Object) -> ObjectKey:
    return ObjectKey(obj.metadata.namespace or None, obj.metadata.name)


def _version(obj: Object) -> int:
    return int(obj.metadata.resource_version or 0)
