"""Finalizers: cleanup before an object is deleted.

    @controller(Disk, finalizer=Finalizer("storage.example.com/cloud-disk", delete_cloud_disk))

Expected flow
    An object gets the finalizer before its first reconcile. When it is being deleted, the finalizer's function is
    called instead of the reconciler. After the function returns, the finalizer is removed, and the API server deletes
    the object. If the function raises, it is retried like a failed reconcile. If it returns a Result with
    `requeue_after`, the finalizer stays, and the function is called again after that time.
Guarantees
    No reconcile runs for an object without the finalizer. So everything that a reconcile creates is cleaned up, however
    and whenever the object is deleted, and whenever this process dies.
    The finalizer is removed after its function succeeded, and only then.
    The finalizers of other controllers stay.
Assumptions
    The function can be called again after it succeeded, because the process may die before the finalizer is removed.
    No user removes the finalizer by hand. If that happens, the function is not called.
Caveats
    An object that was created and deleted before this controller saw it was never reconciled and needs no cleanup.
    An operator that is uninstalled leaves its finalizers, and their objects can't be deleted: delete the objects first.

Follows kube-rs' runtime::finalizer and controller-runtime's controllerutil.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec

from kubewright.client._client import Client
from kubewright.client._patch import MergePatch
from kubewright.controllers._context import Context, guarded_patch, test
from kubewright.controllers._reconcile import Result
from kubewright.machinery.errors import ConfigError, NotFound
from kubewright.models import Object

T = TypeVar("T", bound=Object)


class Finalizer(msgspec.Struct, Generic[T], frozen=True):
    """A finalizer that a controller adds to each of its objects, and the function that runs before it is removed."""

    name: str
    """A domain and a name: `example.com/cleanup`."""
    function: Callable[[Context[T]], Awaitable[Result | None]]
    """Called instead of the reconciler while the object is being deleted, until it succeeds."""

    def __post_init__(self) -> None:
        domain, slash, name = self.name.partition("/")
        if not (domain and slash and name):
            raise ConfigError(
                f'Finalizer("{self.name}"): the name of a finalizer has the form domain/name, such as '
                f'"example.com/{self.name.strip("/") or "cleanup"}", so that two operators never use the same one'
            )


async def add_finalizer(client: Client, obj: T, name: str) -> T:
    """Add the finalizer, and return the updated object. Raises Conflict if the object changed since it was read."""
    if name in obj.metadata.finalizers:
        return obj
    metadata = {
        "resourceVersion": obj.metadata.resource_version,
        "finalizers": [*obj.metadata.finalizers, name],
    }
    return await client.patch(obj, MergePatch({"metadata": metadata}))


async def remove_finalizer(client: Client, obj: Object, name: str) -> None:
    """Remove the finalizer. It is not an error if the object no longer exists.

    Raises Conflict if its finalizers changed since it was read, and Invalid if the object breaks a rule that is newer
    than the object. Other changes do not matter, so the finalizer's function may write the object.
    """
    path = f"/metadata/finalizers/{obj.metadata.finalizers.index(name)}"
    try:
        await guarded_patch(client, obj, (test(path, name), {"op": "remove", "path": path}))
    except NotFound:
        return
