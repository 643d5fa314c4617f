"""Owner references: which object controls which, and applies that respect it.

Guarantees
    `apply_child` never changes an object that another object controls. It changes one that nothing controls only with
    `adopt=True`. This also holds if the cache lags, if two owners race for one name, and if the child is deleted and
    created again between the read and the write.
    If the cache is up to date, an apply is one request, or none if nothing would change.
How
    If the cache does not show the child, the apply may only create it. If the cache shows it as a child of this owner,
    the apply has the uid as a precondition. If the answer shows that the cache lagged, or if the cache shows another
    owner, `apply_child` reads the live object and decides again. Any other Conflict is raised after a single request.
Not guaranteed
    A new owner that another process has just set is noticed only once the cache shows it, if that process uses the same
    field manager and the object has kept its uid. Owners that this process sets are always noticed.

Follows controller-runtime's pkg/controller/controllerutil.
Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/
"""

from __future__ import annotations

from typing import Final, TypeVar

from kubewright.cache._client import CachedClient
from kubewright.cache._entry import Entry, ObjectKey
from kubewright.cache._informer import copy_of
from kubewright.machinery.errors import AlreadyExists, AlreadyOwnedError, ConfigError, Conflict, Invalid
from kubewright.models import Object
from kubewright.models._meta import OwnerReference
from kubewright.models._resource import owner_reference

T = TypeVar("T", bound=Object)

_IDENTITY: Final = frozenset({"metadata.uid", "metadata.ownerReferences"})
"""The fields of an Invalid answer if the live object is not the one that was expected."""
_NO_SUCH_UID: Final = "uid mismatch"
"""A part of the Conflict that answers an apply with a uid if no object of that name exists."""


def set_controller_reference(owner: Object, child: Object) -> None:
    """Make `owner` the controlling owner of `child`: Kubernetes deletes the child after its owner.

    Raises AlreadyOwnedError if `child` names another controlling owner, and ConfigError if the owner lives in another
    namespace.
    """
    if owner.metadata.namespace and owner.metadata.namespace != child.metadata.namespace:
        raise ConfigError(
            f"{_name_of(owner)} cannot own {_name_of(child)}: an owner must be in the namespace of its child, "
            f"or cluster-scoped. Put the child into {owner.metadata.namespace!r}, or delete it in a finalizer"
        )
    reference = owner_reference(owner)
    if not child.metadata.owner_references:
        child.metadata.owner_references = [reference]
        return
    current = controller_of(child)
    if current is not None and current.uid != reference.uid:
        raise _controlled_by_another(child, current, reference)
    others = [each for each in child.metadata.owner_references if each.uid != reference.uid]
    child.metadata.owner_references = [*others, reference]


def is_controlled_by(child: Object, owner: Object) -> bool:
    """Return whether `owner`, and not another object of the same name, is the controlling owner of `child`."""
    current = controller_of(child)
    return current is not None and current.uid == owner.metadata.uid


def controller_of(obj: Object) -> OwnerReference | None:
    """Return the reference to the controlling owner of `obj`; None if nothing controls it."""
    for reference in obj.metadata.owner_references:
        if reference.controller:
            return reference
    return None


async def apply_child(client: CachedClient, child: T, *, adopt: bool, create_only: bool) -> T:
    """Apply `child`, if the live object does not exist or has the same controlling owner.

    With `adopt`, a live object without a controlling owner is applied too. With `create_only`, an existing object is
    returned unchanged, after the same checks. If `child` itself has no controlling owner, nothing is checked. Raises
    AlreadyOwnedError, and Conflict if the live object changes while it is applied.
    """
    owner = controller_of(child)
    if owner is None:
        return await (_create_or_read(client, child) if create_only else client.apply(child))
    informer = client.cache.informer_or_none(type(child))
    if informer is not None and informer.synced:
        meta = child.metadata
        key = ObjectKey(meta.namespace or None, meta.name)
        copy = copy_of(informer)
        entry = copy.latest(key)
        try:
            if entry is None:
                if copy.concerns(key, meta.labels):
                    return await client.apply(child, create_only=True)
            elif _controls(owner, entry):
                return entry.decode() if create_only else await client.apply(child, uid=entry.uid)
        except AlreadyExists:
            pass  # the cache lags
        except (Conflict, Invalid) as error:
            if not _is_about_identity(error):
                raise
    return await _apply_to_live(client, child, owner, adopt=adopt, create_only=create_only)


async def _apply_to_live(client: CachedClient, child: T, owner: OwnerReference, *, adopt: bool, create_only: bool) -> T:
    """Apply `child` to the object that the server has now."""
    meta = child.metadata
    live = await client.uncached.get_or_none(type(child), meta.name, namespace=meta.namespace or None)
    current = controller_of(live) if live is not None else None
    if current is not None and current.uid != owner.uid:
        raise _controlled_by_another(child, current, owner)
    if live is not None and current is None and not adopt:
        raise _not_controlled(child, owner, is_ours=_wrote(client.field_manager, live))
    if live is not None and create_only:
        return live
    try:
        if live is None:
            return await client.apply(child, create_only=True)
        version = live.metadata.resource_version if current is None else None
        return await client.apply(child, uid=live.metadata.uid, resource_version=version)
    except AlreadyExists as error:
        raise _changed(child) from error
    except (Conflict, Invalid) as error:
        if not _is_about_identity(error):
            raise
        raise _changed(child) from error


async def _create_or_read(client: CachedClient, child: T) -> T:
    """Create a child that has no controlling owner, or return the existing object."""
    meta = child.metadata
    informer = client.cache.informer_or_none(type(child))
    key = ObjectKey(meta.namespace or None, meta.name)
    entry = copy_of(informer).latest(key) if informer is not None else None
    if entry is not None:
        return entry.decode()
    try:
        return await client.apply(child, create_only=True)
    except AlreadyExists:
        return await client.uncached.get(type(child), meta.name, namespace=meta.namespace or None)


def _controls(owner: OwnerReference, entry: Entry[T]) -> bool:
    current = entry.controller
    return current is not None and current.uid == owner.uid


def _is_about_identity(error: Conflict | Invalid) -> bool:
    """Return whether an error says that the live object is not the expected one, so that a new read can help."""
    if isinstance(error, Conflict):
        return _NO_SUCH_UID in str(error)
    return any(cause.field in _IDENTITY for cause in error.causes)


def _controlled_by_another(child: Object, current: OwnerReference, owner: OwnerReference) -> AlreadyOwnedError:
    return AlreadyOwnedError(
        f'{_name_of(child)} is controlled by {current.kind} "{current.name}", so {owner.kind} "{owner.name}" cannot '
        f"control it as well. Give the child another name, or delete the other owner or its child",
        controller=current.name,
        controller_kind=current.kind,
        controller_uid=current.uid,
    )


def _not_controlled(child: Object, owner: OwnerReference, *, is_ours: bool) -> AlreadyOwnedError:
    what = (
        f'{_name_of(child)} exists and has no controlling owner, so {owner.kind} "{owner.name}" does not take it over'
    )
    if is_ours:
        return AlreadyOwnedError(
            f"{what}. This operator wrote it before without an owner, probably before {child.kind} was in owns. Adopt "
            "it with ctx.apply(child, adopt=True)"
        )
    return AlreadyOwnedError(
        f"{what}. Give the child another name, delete the existing object, or adopt it with "
        "ctx.apply(child, adopt=True)"
    )


def _wrote(field_manager: str, live: Object) -> bool:
    return any(each.manager == field_manager for each in live.metadata.managed_fields)


def _changed(child: Object) -> Conflict:
    return Conflict(f"{_name_of(child)} changed while it was applied; try again")


def _name_of(obj: Object) -> str:
    meta = obj.metadata
    return f'{obj.kind} "{meta.namespace}/{meta.name}"' if meta.namespace else f'{obj.kind} "{meta.name}"'
