"""Adoption and release of children by selector.

An orphan that the selector matches is adopted, unless its new owner is being deleted. A child that the selector no
longer matches is released. Children of other controllers are left alone.

Follows kubernetes/pkg/controller/controller_ref_manager.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from kubewright.apis.meta.v1 import LabelSelector, OwnerReference, owner_reference
from kubewright.cache._store import Lister
from kubewright.client._client import Client
from kubewright.client._patch import MergePatch
from kubewright.controllers import Context, Request, Watch
from kubewright.controllers.predicates import AnyEvent, Predicate
from kubewright.machinery.errors import NotFound
from kubewright.models import Object
from kubewright_controlplane.common.selection import lister_of, matching, selecting

T = TypeVar("T", bound=Object)
U = TypeVar("U", bound=Object)


class Claims:
    """Adopts and releases the children of an object."""

    def __init__(self, live: Client) -> None:
        """`live` reads from the server, because a cache may not know yet that an owner is being deleted."""
        self._live = live

    async def of(self, ctx: Context[T], kind: type[U], selector: LabelSelector) -> list[U]:
        """Return the children of the context's object, after adoptions and releases."""
        uid = ctx.object.metadata.uid
        claimed: list[U] = []
        orphans: list[U] = []
        for child in await matching(ctx, kind, selector):
            owner = _controller(child)
            if owner is not None and owner.uid == uid:
                claimed.append(child)
            elif owner is None and child.metadata.deletion_timestamp is None:
                orphans.append(child)
        await self._release_others(ctx, kind, {child.metadata.name for child in claimed})
        if orphans and await self._may_adopt(ctx):
            adopted = [await self._adopt(ctx, child) for child in orphans]
            claimed += [child for child in adopted if child is not None]
        return claimed

    async def _release_others(self, ctx: Context[T], kind: type[U], kept: set[str]) -> None:
        uid = ctx.object.metadata.uid
        for entry in lister_of(ctx, kind).entries(owner=uid):
            owner = entry.controller
            if entry.key.name not in kept and not entry.deleting and owner is not None and owner.uid == uid:
                await self._release(ctx, entry.decode())

    async def _may_adopt(self, ctx: Context[T]) -> bool:
        """Return whether the owner still exists and is not being deleted."""
        mine = ctx.object.metadata
        live = await self._live.get_or_none(type(ctx.object), mine.name, namespace=mine.namespace)
        return live is not None and live.metadata.uid == mine.uid and live.metadata.deletion_timestamp is None

    async def _adopt(self, ctx: Context[T], child: U) -> U | None:
        references = [*child.metadata.owner_references, owner_reference(ctx.object)]
        adopted = await self._write_owners(ctx, child, references)
        if adopted is not None:
            ctx.log.info("Orphan adopted", kind=child.kind, name=child.metadata.name)
        return adopted

    async def _release(self, ctx: Context[T], child: Object) -> None:
        uid = ctx.object.metadata.uid
        references = [each for each in child.metadata.owner_references if each.uid != uid]
        if await self._write_owners(ctx, child, references) is not None:
            ctx.log.info("Child released", kind=child.kind, name=child.metadata.name)

    async def _write_owners(self, ctx: Context[T], child: U, references: list[OwnerReference]) -> U | None:
        metadata = {
            "uid": child.metadata.uid,
            "resourceVersion": child.metadata.resource_version,
            "ownerReferences": msgspec.to_builtins(references),
        }
        try:
            return await ctx.patch(child, MergePatch({"metadata": metadata}))
        except NotFound:
            return None


def orphans(kind: type[Object]) -> Watch[Object]:
    """Return a watch of orphans, for controllers with an index `SELECTOR` that may adopt them."""
    return Watch.mapped(kind, _adopters, predicate=_is_orphan)


def _adopters(child: Object, owners: Lister[Object]) -> Iterable[Request]:
    return [Request(owner.metadata.namespace, owner.metadata.name) for owner in selecting(child, owners)]


def _new_is_orphan(event: AnyEvent) -> bool:
    return event.new is not None and event.new.controller is None and not event.new.deleting


_is_orphan = Predicate(_new_is_orphan)


def _controller(child: Object) -> OwnerReference | None:
    return next((each for each in child.metadata.owner_references if each.controller), None)
