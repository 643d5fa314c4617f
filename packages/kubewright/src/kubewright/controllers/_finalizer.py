"""Finalizers: work that is done before an object goes.

    @controller(Disk, finalizer="storage.example.com/cloud-disk", finalize=delete_cloud_disk)

Expected flow
    An object that is not being deleted gets the finalizer before its first reconcile sees it. When it is being
    deleted, `finalize` is called instead of `reconcile`; once that returns, the finalizer is taken off, and the API
    server lets the object go. What `finalize` raises is retried as a failed reconcile; a Result with `requeue_after`
    means not finished yet: the finalizer stays, and `finalize` is called again after that time.
Guarantees
    No reconcile has run for an object without the finalizer on it, so nothing that a reconcile made is left behind
    unseen, however the object is deleted and whenever this process dies.
    The finalizer is taken off after a `finalize` that succeeded, and only then.
    Other controllers' finalizers are left as they are.
Assumptions
    `finalize` can be called again after it succeeded: the process may die before the finalizer is off.
    Nobody takes the finalizer off by hand; then `finalize` is not called.
Caveats
    An object that was created and deleted before this controller saw it was never reconciled: nothing to clean up.
    An operator that is uninstalled leaves its finalizers, and their objects can't go: delete the objects first.

Follows kube-rs' runtime::finalizer and controller-runtime's controllerutil.
"""

from __future__ import annotations

from typing import TypeVar

from kubewright.client._client import Client
from kubewright.client._patch import MergePatch
from kubewright.controllers._patches import guarded_patch, test
from kubewright.machinery.errors import NotFound
from kubewright.models import Object

T = TypeVar("T", bound=Object)


async def add_finalizer(client: Client, obj: T, finalizer: str) -> T:
    """Add the finalizer. Returns the updated object. Raises Conflict if it changed since it was read."""
    if finalizer in obj.metadata.finalizers:
        return obj
    metadata = {
        "resourceVersion": obj.metadata.resource_version,
        "finalizers": [*obj.metadata.finalizers, finalizer],
    }
    return await client.patch(obj, MergePatch({"metadata": metadata}))


async def remove_finalizer(client: Client, obj: Object, finalizer: str) -> None:
    """Take the finalizer off. An object that is gone is fine. Raises Conflict when its finalizers changed meanwhile,
    Invalid when the object breaks a rule that came after it.

    Other changes do not matter, so that what `finalize` wrote to the object itself is no conflict.
    """
    place = f"/metadata/finalizers/{obj.metadata.finalizers.index(finalizer)}"
    try:
        await guarded_patch(client, obj, (test(place, finalizer), {"op": "remove", "path": place}))
    except NotFound:
        return
