"""A cache of many kinds, with one informer per kind, which starts at the first read.

A Cache has the read methods of a Client and reads from memory. It lags slightly behind the server; `CachedClient` hides
the lag for its own writes.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

import msgspec

from kubewright.cache._copy import KindCopy
from kubewright.cache._entry import Entry, ObjectKey
from kubewright.cache._informer import Informer, copy_of, wait_readable
from kubewright.cache._store import EVERYWHERE, IndexFunction, Namespaces, Selection, each_of
from kubewright.client._client import Client
from kubewright.client._dynamic import PartialObjectMetadata, Unstructured
from kubewright.client._lists import Fields, Labels, ObjectList
from kubewright.machinery.errors import ConfigError, DeadlineExceeded
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.time import Seconds, seconds
from kubewright.models import Object

T = TypeVar("T", bound=Object)

_Identity: TypeAlias = type[Object] | tuple[type[Object], GroupVersionKind]


class Scope(msgspec.Struct, frozen=True):
    """The part of a kind that is cached."""

    namespaces: Namespaces = None
    labels: Labels = None
    fields: Fields = None
    only: Collection[str] | None = None
    """The fields that are kept of each object, in addition to its metadata: `["spec.nodeName", "status.phase"]`. Reads
    return objects without the other fields, so these objects cannot be updated as a whole.
    """
    indexers: Mapping[str, IndexFunction[Any]] = msgspec.field(default_factory=dict[str, "IndexFunction[Any]"])
    keep_managed_fields: bool = False
    resync: Seconds | None = None


class Cache:
    """The informers of one manager. Is a `Reader`."""

    def __init__(
        self,
        client: Client,
        *,
        namespaces: Namespaces = None,
        scopes: Mapping[type[Object], Scope] | None = None,
        sync_timeout: Seconds = 120.0,
    ) -> None:
        """Keep the objects in `namespaces` (one, several, or None for all) of each namespaced kind; `scopes` has
        exceptions by kind.

        A read of a kind whose first list is not complete waits for `sync_timeout` at most. It raises ConfigError at
        once if the kind, or the permission to list and watch it, is missing.
        """
        self._client = client
        self._default = Scope(namespaces=namespaces)
        self._scopes = {_identity(kind): scope for kind, scope in (scopes or {}).items()}
        self._sync_timeout = seconds(sync_timeout)
        self._informers: dict[_Identity, Informer[Any]] = {}
        self._of_resource: dict[type[Object], builtins.list[Informer[Any]]] = {}
        """Cached results of `informers_of`, until an informer is added."""
        self._started = False
        self._stopped = False
        self._is_ending = False

    def informer(self, kind: type[T], scope: Scope | None = None) -> Informer[T]:
        """Return the informer of `kind`. It is created if needed, and started if the cache is started.

        `scope` is the part of the kind that a new informer keeps; by default, the one given to the cache.
        """
        informer = self.informer_or_none(kind)
        if informer is None:
            informer = self._informers[_identity(kind)] = self._make(kind, scope or self.scope(kind))
            self._of_resource.clear()
            if self._started and not self._stopped:
                informer.start()
        return informer

    def scope(self, kind: type[Object]) -> Scope:
        """Return which part of `kind` this cache keeps."""
        return self._scopes.get(_identity(kind), self._default)

    def informer_or_none(self, kind: type[T]) -> Informer[T] | None:
        """Return the informer of `kind`, or None if it has not been created."""
        informer = self._informers.get(kind)
        if informer is None:  # perhaps the class was created at run time, so that it is not the key
            informer = self._informers.get(_identity(kind))
        return informer

    def __iter__(self) -> Iterator[Informer[Any]]:
        """Iterate over the existing informers."""
        return iter(list(self._informers.values()))

    def informers_of(self, kind: type[Object]) -> builtins.list[Informer[Any]]:
        """Return all informers of the resource of `kind`: of all its versions, and of its metadata."""
        found = self._of_resource.get(kind)
        if found is None:
            resource = kind.__api__.group, kind.__api__.plural
            every = self._informers.values()
            found = [each for each in every if (each.kind.__api__.group, each.kind.__api__.plural) == resource]
            self._of_resource[kind] = found
        return found

    def start(self) -> None:
        """Start the informers. Informers that are created later start immediately."""
        self._started = True
        for informer in self._informers.values():
            informer.start()

    async def stop(self) -> None:
        """Stop every informer and wait for it. The cache stays readable, and no informer starts again."""
        self._stopped = True
        await asyncio.gather(*[informer.stop() for informer in self._informers.values()])

    async def wait_synced(self, timeout: Seconds | None = None, *, apart_from: Collection[type[Object]] = ()) -> None:
        """Wait until all informers are complete. Raises DeadlineExceeded, which names the incomplete informers."""
        left_out = {_identity(kind) for kind in apart_from}
        informers = [each for identity, each in self._informers.items() if identity not in left_out]
        allowed = seconds(timeout) if timeout is not None else None
        copies = [copy_of(each) for each in informers]
        await asyncio.gather(*[copy.until(partial(_is_synced, copy), allowed) for copy in copies])
        late = [each.reason_not_synced for each in informers if not each.synced]
        if late:
            raise DeadlineExceeded(f"the cache was not complete after {allowed:g} s: {'; '.join(late)}")

    async def remove(self, kind: type[Object]) -> None:
        """Stop the informer of a kind and drop its objects."""
        informer = self._informers.pop(_identity(kind), None)
        self._of_resource.clear()
        if informer is not None:
            await informer.stop()

    async def ready(self, kind: type[T], namespace: str | None = None) -> Informer[T]:
        """Return the informer of `kind`, once it is complete. Raises ConfigError if it does not keep `namespace`."""
        if not self._started:
            raise ConfigError(f"{kind.__api__.kind} was read from a cache that was not started")
        informer = self.informer_or_none(kind)
        held = informer.namespaces if informer is not None else each_of(self.scope(kind).namespaces)
        if held != EVERYWHERE and namespace and namespace not in held:
            raise ConfigError(
                f"{kind.__api__.kind} was read in namespace {namespace!r}, but this cache holds "
                f"{', '.join(map(repr, held))} only"
            )
        if informer is None:
            informer = self.informer(kind)
        if not copy_of(informer).synced:
            await wait_readable(informer, self._sync_timeout)
        return informer

    async def get(self, kind: type[T], name: str, *, namespace: str | None = None) -> T:
        """Return the object of that name. Raises NotFound, and DecodeError if it does not match its class."""
        self._client.endpoint(kind).check(name, namespace)
        return (await self.ready(kind, namespace)).get(ObjectKey(namespace, name))

    async def get_or_none(self, kind: type[T], name: str, *, namespace: str | None = None) -> T | None:
        """Return the object of that name, or None. Raises DecodeError if it does not match its class."""
        self._client.endpoint(kind).check(name, namespace)
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
        """Return the objects that match all arguments, in one namespace or, by default, in all that are kept.

        `owner` is a uid; `index` is an index's name and a value. `fields` can select `metadata.name` and
        `metadata.namespace`; for another field, define an index in the scope. Objects that do not match their class are
        left out, and logged once.
        """
        store = copy_of(await self.ready(kind, namespace)).store
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
            namespaces=scope.namespaces if kind.__api__.namespaced else None,
            labels=scope.labels,
            fields=scope.fields,
            only=scope.only,
            indexers=scope.indexers,
            keep_managed_fields=scope.keep_managed_fields,
            resync=scope.resync,
        )


def end_soon(cache: Cache) -> None:
    """Prepare for the stop of a cache: from now on, no read waits for a watch that has lost its connection."""
    cache._is_ending = True
    for informer in cache:
        copy_of(informer).changed()


def is_ending(cache: Cache) -> bool:
    """Return whether `end_soon` was called."""
    return cache._is_ending


def _is_synced(copy: KindCopy[Any]) -> bool:
    return copy.synced


class _Matcher:
    """Whether an entry matches the arguments of a list."""

    def __init__(
        self, kind: type[Object], namespace: str | None, labels: Labels, fields: Fields, owner: str | None
    ) -> None:
        self._namespace = namespace
        self._owner = owner
        self._selection = Selection(labels, fields)
        if self._selection.unknown:
            raise ConfigError(
                f"{kind.__api__.kind}: a cache cannot select by the field {self._selection.unknown[0]}; "
                "define an index in its scope, or list from the server with Client.list"
            )

    def __call__(self, entry: Entry[Any]) -> bool:
        return (
            (self._namespace is None or entry.key.namespace == self._namespace)
            and (self._owner is None or any(owner.uid == self._owner for owner in entry.owners))
            and self._selection.has(entry)
        )


def _identity(kind: type[Object]) -> _Identity:
    """Return the identity of a kind in a cache: several classes created at run time may stand for one kind."""
    for base in (PartialObjectMetadata, Unstructured):
        if issubclass(kind, base):
            return base, kind.__api__.gvk
    return kind
