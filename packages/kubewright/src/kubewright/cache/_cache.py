"""A cache of many kinds: one informer each, started when it is first asked for.

A Cache reads as a Client does, from memory. It is behind the server by as much as a watch is; `CachedClient` hides that
for what one wrote oneself.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar

from kubewright.cache._entry import Entry, ObjectKey
from kubewright.cache._informer import Informer
from kubewright.cache._namespaces import EVERYWHERE, Namespaces, each_of
from kubewright.cache._selection import Selection
from kubewright.cache._store import IndexFunction
from kubewright.client._client import Client
from kubewright.client._dynamic import PartialObjectMetadata, Unstructured
from kubewright.client._lists import Fields, Labels, ObjectList
from kubewright.machinery.errors import ConfigError, DeadlineExceeded
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.models import Object

T = TypeVar("T", bound=Object)

_Identity: TypeAlias = type[Object] | tuple[type[Object], GroupVersionKind]


@dataclass(frozen=True, slots=True)
class Scope:
    """What part of a kind is held, and how."""

    namespace: Namespaces = None
    labels: Labels = None
    fields: Fields = None
    only: Collection[str] | None = None
    """The fields that are held of each object, beside its metadata: `["spec.nodeName", "status.phase"]`. Reads give
    objects without the others, so none of them can be written whole.
    """
    indexers: Mapping[str, IndexFunction[Any]] = field(default_factory=dict[str, "IndexFunction[Any]"])
    keep_managed_fields: bool = False
    resync: timedelta | None = None


class Cache:
    """The informers of one manager. Is a `Reader`."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: Namespaces = None,
        scopes: Mapping[type[Object], Scope] | None = None,
        sync_timeout: float = 120.0,
    ) -> None:
        """Of each namespaced kind, the objects in `namespace` (one or several), or in all when it is None, unless
        `scopes` says otherwise.

        A read of a kind that is not complete waits for up to `sync_timeout` seconds; ConfigError at once where the
        right to follow the kind is missing, or the kind itself.
        """
        self._client = client
        self._default = Scope(namespace=namespace)
        self._scopes = {_identity(kind): scope for kind, scope in (scopes or {}).items()}
        self._sync_timeout = sync_timeout
        self._informers: dict[_Identity, Informer[Any]] = {}
        self._of_resource: dict[type[Object], builtins.list[Informer[Any]]] = {}
        """What `informers_of` returned, until there is another informer."""
        self._started = False
        self._stopped = False

    def informer(self, kind: type[T]) -> Informer[T]:
        """The one informer of `kind`; started if the cache is."""
        informer = self.informer_or_none(kind)
        if informer is None:
            informer = self._informers[_identity(kind)] = self._make(kind, self.scope(kind))
            self._of_resource.clear()
            if self._started and not self._stopped:
                informer.start()
        return informer

    def scope(self, kind: type[Object]) -> Scope:
        """What part of `kind` this cache holds."""
        return self._scopes.get(_identity(kind), self._default)

    def informer_or_none(self, kind: type[T]) -> Informer[T] | None:
        """The informer of `kind`, if it has been asked for."""
        # By its class it is held, unless that was made at run time.
        return self._informers.get(kind) or self._informers.get(_identity(kind))

    def __iter__(self) -> Iterator[Informer[Any]]:
        """The informers that there are now."""
        return iter(list(self._informers.values()))

    def informers_of(self, kind: type[Object]) -> builtins.list[Informer[Any]]:
        """All informers of the resource that `kind` is: of its versions, and of its metadata alone."""
        found = self._of_resource.get(kind)
        if found is None:
            resource = kind.__api__.group, kind.__api__.plural
            every = self._informers.values()
            found = [each for each in every if (each.kind.__api__.group, each.kind.__api__.plural) == resource]
            self._of_resource[kind] = found
        return found

    def start(self) -> None:
        """Start what has been asked for; what is asked for later starts at once."""
        self._started = True
        for informer in self._informers.values():
            informer.start()

    async def stop(self) -> None:
        """Stop every informer, and wait for it. What they hold stays readable; nothing is started any more."""
        self._stopped = True
        await asyncio.gather(*[informer.stop() for informer in self._informers.values()])

    async def wait_synced(self, timeout: float | None = None, *, apart_from: Collection[type[Object]] = ()) -> None:
        """Until all kinds asked for so far are complete. Raises DeadlineExceeded, naming each that is not and why."""
        left_out = {_identity(kind) for kind in apart_from}
        informers = [each for identity, each in self._informers.items() if identity not in left_out]
        synced = await asyncio.gather(*[each.until_synced(timeout) for each in informers])
        late = [each.hindrance for each, complete in zip(informers, synced, strict=True) if not complete]
        if late:
            raise DeadlineExceeded(f"the cache was not complete after {timeout:g} s: {'; '.join(late)}")

    async def remove(self, kind: type[Object]) -> None:
        """Stop the informer of a kind and forget what it held."""
        informer = self._informers.pop(_identity(kind), None)
        self._of_resource.clear()
        if informer is not None:
            await informer.stop()

    async def ready(self, kind: type[T], namespace: str | None = None) -> Informer[T]:
        """The informer of `kind` once it is complete, if it holds what is in `namespace`."""
        if not self._started:
            raise ConfigError(f"{kind.__api__.kind} was read from a cache that was not started")
        informer = self.informer_or_none(kind)
        held = informer.namespaces if informer is not None else each_of(self.scope(kind).namespace)
        if held != EVERYWHERE and namespace and namespace not in held:
            raise ConfigError(
                f"{kind.__api__.kind} was read in namespace {namespace!r}, but this cache holds "
                f"{', '.join(map(repr, held))} only"
            )
        informer = informer or self.informer(kind)
        if not informer.synced:
            await informer.wait_readable(self._sync_timeout)
        return informer

    async def get(self, kind: type[T], name: str, *, namespace: str | None = None) -> T:
        """The object of that name. Raises NotFound; DecodeError for one that is there but not of its kind."""
        self._client.endpoint(kind).item(name, namespace)
        return (await self.ready(kind, namespace)).get(ObjectKey(namespace or None, name))

    async def get_or_none(self, kind: type[T], name: str, *, namespace: str | None = None) -> T | None:
        """The object of that name, or None. Raises DecodeError for one that is there but not of its kind."""
        self._client.endpoint(kind).item(name, namespace)
        return (await self.ready(kind, namespace)).lister.get(name, namespace or None)

    async def list(
        self,
        kind: type[T],
        *,
        namespace: str | None = None,
        labels: Labels = None,
        fields: Fields = None,
        owner: str | None = None,
        index: tuple[str, str] | None = None,
    ) -> ObjectList[T]:
        """The objects that match all that is given; of every namespace that is held when none is.

        `owner` is a uid; `index` an index's name and a value. `fields` can select `metadata.name` and
        `metadata.namespace`; for another field, give the scope an index. Objects that are not of their kind are left
        out, and reported once.
        """
        store = (await self.ready(kind, namespace)).store
        if owner is not None:
            entries = store.owned_by(owner)
        elif index is not None:
            entries = store.by_index(*index)
        else:
            entries = store.select(namespace=namespace)
        matches = _Matcher(kind, namespace, labels, fields, owner)
        return ObjectList(store.decode(filter(matches, entries)), str(store.version))

    def _make(self, kind: type[T], scope: Scope) -> Informer[T]:
        return Informer(
            self._client,
            kind,
            namespace=scope.namespace if kind.__api__.namespaced else None,
            labels=scope.labels,
            fields=scope.fields,
            only=scope.only,
            indexers=scope.indexers,
            keep_managed_fields=scope.keep_managed_fields,
            resync=scope.resync,
        )


class _Matcher:
    """Whether an entry is among those that a list asks for."""

    def __init__(
        self, kind: type[Object], namespace: str | None, labels: Labels, fields: Fields, owner: str | None
    ) -> None:
        self._namespace = namespace
        self._owner = owner
        self._selection = Selection(labels, fields)
        if self._selection.untold:
            raise ConfigError(
                f"{kind.__api__.kind}: a cache cannot select by the field {self._selection.untold[0]}; "
                "give its scope an index, or ask the server with Client.list"
            )

    def __call__(self, entry: Entry[Any]) -> bool:
        return (
            (self._namespace is None or entry.key.namespace == self._namespace)
            and (self._owner is None or any(owner.uid == self._owner for owner in entry.owners))
            and self._selection.has(entry)
        )


def _identity(kind: type[Object]) -> _Identity:
    """What makes two classes the same kind to a cache: those made at run time are many for one."""
    for base in (PartialObjectMetadata, Unstructured):
        if issubclass(kind, base):
            return base, kind.__api__.gvk
    return kind
