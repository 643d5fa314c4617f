"""Who belongs to a controller: children are taken in by selector, and let go when they no longer match.

An orphan that the selector matches is adopted; a child that it no longer matches is released; what another controller
owns is left alone. Follows kubernetes/pkg/controller/controller_ref_manager.go.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from kubewright.client.patch import MergePatch
from kubewright.controller import Context
from kubewright.machinery.errors import NotFound
from kubewright.machinery.selectors import LabelSelector
from kubewright.models import Object
from kubewright.models.meta import LabelSelector as LabelSelectorField
from kubewright.models.meta import OwnerReference, owner_reference

T = TypeVar("T", bound=Object)
U = TypeVar("U", bound=Object)


def compiled(selector: LabelSelectorField) -> LabelSelector:
    """The selector of a spec, ready to match."""
    return LabelSelector.from_dict(msgspec.to_builtins(selector))


async def claim(ctx: Context[T], kind: type[U], selector: LabelSelector) -> list[U]:
    """The children of the context's object, after adoptions and releases."""
    owned = {child.metadata.uid: child for child in await ctx.list(kind, owned=True)}
    matching = {child.metadata.uid: child for child in await ctx.list(kind, labels=selector)}
    claimed = [child for uid, child in owned.items() if uid in matching]
    for uid, child in owned.items():
        if uid not in matching and child.metadata.deletion_timestamp is None:
            await _release(ctx, child)
    for uid, child in matching.items():
        if uid not in owned and _is_orphan(child):
            adopted = await _adopt(ctx, child)
            if adopted is not None:
                claimed.append(adopted)
    return claimed


def _is_orphan(child: Object) -> bool:
    return child.metadata.deletion_timestamp is None and not any(
        reference.controller for reference in child.metadata.owner_references
    )


async def _adopt(ctx: Context[T], child: U) -> U | None:
    references = [*child.metadata.owner_references, owner_reference(ctx.object)]
    adopted = await _write_owners(ctx, child, references)
    if adopted is not None:
        ctx.log.info("Adopted orphan", kind=child.kind, name=child.metadata.name)
    return adopted


async def _release(ctx: Context[T], child: Object) -> None:
    uid = ctx.object.metadata.uid
    references = [each for each in child.metadata.owner_references if each.uid != uid]
    if await _write_owners(ctx, child, references) is not None:
        ctx.log.info("Released child", kind=child.kind, name=child.metadata.name)


async def _write_owners(ctx: Context[T], child: U, references: list[OwnerReference]) -> U | None:
    metadata = {
        "uid": child.metadata.uid,
        "resourceVersion": child.metadata.resource_version,
        "ownerReferences": msgspec.to_builtins(references),
    }
    try:
        return await ctx.patch(child, MergePatch({"metadata": metadata}))
    except NotFound:
        return None
