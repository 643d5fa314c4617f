"""A cache of many kinds: one informer each, started when it is first asked for.

A Cache reads as a Client does, from memory. It is behind the server by as much as a watch is; `CachedClient` hides that
for what one wrote oneself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kubewright.cache.informer import IndexFunction, Informer
from kubewright.client.client import Client
from kubewright.client.lists import Fields, Labels, ObjectList
from kubewright.models import Object

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class Scope:
    """What part of a kind is held, and how."""

    namespace: str | None = None
    labels: Labels = None
    fields: Fields = None
    indexers: Mapping[str, IndexFunction[Any]] = field(default_factory=dict[str, "IndexFunction[Any]"])
    keep_managed_fields: bool = False


class Cache:
    """The informers of one manager. Is a `Reader`."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str | None = None,
        scopes: Mapping[type[Object], Scope] | None = None,
        sync_timeout: float = 120.0,
    ) -> None:
        """`namespace` is held of each namespaced kind for which `scopes` does not say otherwise; None is the whole cluster.
        A read of a kind that has not synced waits up to `sync_timeout` seconds."""

    def informer(self, kind: type[T]) -> Informer[T]:
        """The one informer of `kind`; started if the cache is."""
        raise NotImplementedError

    def start(self) -> None:
        """Start what has been asked for; what is asked for later starts at once."""

    async def stop(self) -> None:
        """Stop every informer, and wait for it."""

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Until all kinds asked for so far are complete. Raises DeadlineExceeded, naming each that is not and why."""

    async def remove(self, kind: type[Object]) -> None:
        """Stop the informer of a kind and forget what it held."""

    async def get(self, kind: type[T], name: str, *, namespace: str | None = None) -> T:
        """Raises NotFound; DecodeError for an object that is there but not one of its kind."""
        raise NotImplementedError

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
        """`owner` is a uid; `index` an index's name and a value. `fields` can select `metadata.name` and
        `metadata.namespace`; for another field, give the scope an index."""
        raise NotImplementedError
