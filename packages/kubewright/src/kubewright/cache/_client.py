"""A client that reads from the cache and writes to the server, and whose reads see its own writes.

After a write, a read of that key waits until the cache has reached the version of the write, or shows the deletion. A
list of a kind waits for all earlier writes of this client to that kind. If the cache does not get there within five
seconds, the read goes to the server instead: slow, but never stale.

Guarantees
    A get or list returns nothing older than the last write of this client.
    An apply that would change nothing is not sent, if the cache can tell.
Not guaranteed
    Reads that see the writes of other clients and processes. After a Pod's `binding`, whose answer has no version, a
    read waits for any change of the Pod.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from kubewright._runtime.log import get_logger
from kubewright.cache._cache import Cache
from kubewright.cache._entry import ObjectKey
from kubewright.cache._informer import Informer, copy_of
from kubewright.cache._writers import RecordOwnWrites, SkipUnchangedApplies
from kubewright.client._client import Client
from kubewright.client._lists import Fields, Labels, ObjectList, Reader
from kubewright.client._write import RESTWriter, Writer
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

        `writer` replaces the default writer, which records own writes and sends them; see `kubewright.cache._writers`.
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
        recorded = writer or RecordOwnWrites(RESTWriter(self.rest), cache)
        self.writer = SkipUnchangedApplies(recorded, cache)
        self.uncached: Reader = Client(
            transport=client.rest.transport, user_agent=client.rest.user_agent, clock=client.clock
        )
        """Reads from the server: for objects that are read rarely, or right before an irreversible action."""

    # ---- reading

    async def get(self, kind: type[T], name: str, *, namespace: str | None = None) -> T:
        """Return the object of that name, from the cache. Raises NotFound."""
        self.endpoint(kind).item(name, namespace)  # raises ConfigError for a missing or superfluous namespace
        if self._on_read is not None:
            self._on_read(kind)
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
        if key is not None and writes.seen(key):
            return True
        count = writes.count
        if any(write.overdue for write in writes.unseen(key, count)):
            return False
        if await copy.until(lambda: not any(writes.unseen(key, count)), _WRITE_TIMEOUT):
            return True
        for write in writes.unseen(key, count):
            write.overdue = True
        _log.warning(
            "Own write not yet in the cache, read from the server",
            resource=informer.resource,
            seconds=_WRITE_TIMEOUT,
            error=str(informer.last_error or "") or None,
        )
        return False
