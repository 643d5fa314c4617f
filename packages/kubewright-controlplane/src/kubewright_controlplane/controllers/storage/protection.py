"""Keeps the finalizers that protect claims, volumes and attributes classes in use.

The API server adds these finalizers to new objects, and removes them from deleted ones that nothing uses. A client may
remove one earlier; these controllers add it again.

Follows kubernetes/pkg/controller/volume/{pvcprotection,pvprotection,vacprotection}.
"""

from __future__ import annotations

from typing import Any

from kubewright.controllers import Context, Controller, controller
from kubewright.controllers._finalizer import add_finalizer
from kubewright.models import Object


class _Protector:
    def __init__(self, finalizer: str) -> None:
        self._finalizer = finalizer

    async def reconcile(self, ctx: Context[Any]) -> None:
        metadata = ctx.object.metadata
        if metadata.deletion_timestamp is None and self._finalizer not in metadata.finalizers:
            await add_finalizer(ctx.client, ctx.object, self._finalizer)


def protection_controller(kind: type[Object], name: str, finalizer: str) -> Controller[Any]:
    """Return the controller `name`, which keeps a finalizer on all objects of a kind that are not being deleted."""
    return controller(kind, name=name)(_Protector(finalizer).reconcile)
