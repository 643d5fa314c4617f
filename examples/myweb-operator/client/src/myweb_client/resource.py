# Made by `kubewright generate client`, which writes it anew: change nothing here.
# ruff: noqa: UP046, RUF100 - good for Python 3.11
"""What can be done with the objects of one kind. For what is rarer, `Clientset.client` has every verb and option."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Generic, Literal, TypeVar

from kubewright.client import Client, ObjectList, WatchEvent
from kubewright.client._lists import Fields, Labels
from kubewright.client._patch import Patch
from kubewright.machinery.errors import ConfigError
from kubewright.models import Object

T = TypeVar("T", bound=Object)


class Resource(Generic[T]):
    """The objects of a kind: of one namespace, or of all where none is named."""

    def __init__(self, client: Client, kind: type[T], namespace: str | None) -> None:
        self._client = client
        self._kind = kind
        self._namespace = namespace

    async def get(self, name: str) -> T:
        """The object of that name. Raises NotFound."""
        return await self._client.get(self._kind, name, namespace=self._namespace)

    async def list(self, *, labels: Labels = None, fields: Fields = None) -> ObjectList[T]:
        """The objects that match; all of them when nothing is asked for."""
        return await self._client.list(self._kind, namespace=self._namespace, labels=labels, fields=fields)

    def watch(
        self,
        *,
        labels: Labels = None,
        fields: Fields = None,
        resource_version: str | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Changes as they happen, until the server ends the stream or `timeout` seconds are over; what is there comes
        first, unless `resource_version` says from when on. What keeps up for ever is an informer.
        """
        return self._client.watch(
            self._kind,
            namespace=self._namespace,
            labels=labels,
            fields=fields,
            resource_version=resource_version,
            timeout=timeout,
        )

    async def create(self, obj: T, *, dry_run: bool = False) -> T:
        """Create `obj`. Raises AlreadyExists, Invalid."""
        return await self._client.create(self._placed(obj), dry_run=dry_run)

    async def update(self, obj: T, *, dry_run: bool = False) -> T:
        """Replace the object with `obj`. Raises Conflict when it changed since `obj` was read."""
        return await self._client.update(self._placed(obj), dry_run=dry_run)

    async def update_status(self, obj: T, *, dry_run: bool = False) -> T:
        """Replace the status alone. Raises Conflict when the object changed since `obj` was read."""
        return await self._client.update_status(self._placed(obj), dry_run=dry_run)

    async def patch(self, name: str, patch: Patch, *, dry_run: bool = False) -> T:
        """Change the object of that name. Gives it as it then is."""
        return await self._client.patch(self._kind, patch, name=name, namespace=self._namespace, dry_run=dry_run)

    async def apply(self, obj: T, *, force: bool = True, dry_run: bool = False) -> T:
        """Server-side apply: the object has what `obj` says, and is created if need be. Without `force`, fields of
        other managers are a Conflict.
        """
        return await self._client.apply(self._placed(obj), force=force, dry_run=dry_run)

    async def delete(
        self,
        name: str,
        *,
        propagation: Literal["Background", "Foreground", "Orphan"] | None = None,
        dry_run: bool = False,
    ) -> None:
        """Ask for the object to be deleted. Raises NotFound."""
        await self._client.delete(self._kind, name, namespace=self._namespace, propagation=propagation, dry_run=dry_run)

    async def delete_all(self, *, labels: Labels = None, fields: Fields = None, dry_run: bool = False) -> None:
        """Delete every object that matches; of a namespaced kind, in the one namespace that was named."""
        await self._client.delete_all_of(
            self._kind, namespace=self._namespace, labels=labels, fields=fields, dry_run=dry_run
        )

    def _placed(self, obj: T) -> T:
        """`obj`, which gets the namespace where it has none."""
        if self._namespace and obj.metadata.namespace not in ("", None, self._namespace):
            raise ConfigError(
                f'{obj.kind} "{obj.metadata.name}": its namespace is "{obj.metadata.namespace}", and this is about '
                f'"{self._namespace}"; ask for that one, or leave metadata.namespace out'
            )
        if self._namespace:
            obj.metadata.namespace = self._namespace
        return obj
