"""Binds claims to volumes. Follows kubernetes/pkg/controller/volume/persistentvolume/pv_controller.go.

The volume is written first and the claim after it. After a crash between the two, the volume refers to its claim, and
the next reconcile completes the binding.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from kubewright.apis.core.v1 import PersistentVolume, PersistentVolumeClaim
from kubewright.apis.storage.v1 import StorageClass
from kubewright.cache._store import Lister
from kubewright.client._patch import MergePatch
from kubewright.client._rest import reference_to
from kubewright.controllers import Context, Controller, Request, Watch, controller
from kubewright.machinery.errors import NotFound
from kubewright_controlplane.common import binding
from kubewright_controlplane.common.volumes import BIND_COMPLETED, SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_CLASS: Final = "class"
_NO_CLASS: Final = "(none)"
"""Stands in the index for claims without a class. A claim of the class "" never gets the default one."""


async def reconcile(ctx: Context[PersistentVolumeClaim]) -> None:
    claim = ctx.object
    if claim.spec.volume_name:
        await _bind_to_named(ctx)
        return
    storage_class = await _class_of(ctx)
    waits = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    if waits and SELECTED_NODE not in claim.metadata.annotations and not await _kept_for(ctx):
        note = "waiting for first consumer to be created before binding"
        await _hold_up(ctx, "WaitForFirstConsumer", note)
        return
    volume = binding.best(claim, await ctx.list(PersistentVolume))
    if volume is not None:
        await _bind(ctx, volume)
    elif claim.spec.storage_class_name is None and (default := await _default_class(ctx)) is not None:
        version = {"resourceVersion": claim.metadata.resource_version}
        await ctx.patch(claim, MergePatch({"metadata": version, "spec": {"storageClassName": default}}))
    elif storage_class is None or storage_class.provisioner == _NO_PROVISIONER:
        await _report_no_volume(ctx, storage_class)
    else:
        await _ask_provisioner(ctx, storage_class.provisioner)


async def _bind_to_named(ctx: Context[PersistentVolumeClaim]) -> None:
    """Bind a claim that names its volume: it was bound before, or its author chose the volume."""
    claim = ctx.object
    try:
        volume = await ctx.get(PersistentVolume, claim.spec.volume_name or "")
    except NotFound:
        if binding.is_bound(claim):
            await _set_phase(ctx, "Lost")
            note = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
            ctx.events.warning(claim, "ClaimLost", note, action="Binding")
        else:
            await _set_phase(ctx, "Pending")
        return
    if volume.spec.claim_ref is None or binding.is_reference_to(volume.spec.claim_ref, claim):
        await _bind(ctx, volume)
    elif binding.is_bound(claim):
        await _set_phase(ctx, "Lost")
    else:
        note = f'volume "{volume.metadata.name}" already bound to a different claim.'
        await _hold_up(ctx, "FailedBinding", note, warning=True)


async def _report_no_volume(ctx: Context[PersistentVolumeClaim], storage_class: StorageClass | None) -> None:
    name = ctx.object.spec.storage_class_name
    if name and storage_class is None:
        await _hold_up(ctx, "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found', warning=True)
    else:
        note = "no persistent volumes available for this claim and no storage class is set"
        await _hold_up(ctx, "FailedBinding", note)


async def _bind(ctx: Context[PersistentVolumeClaim], volume: PersistentVolume) -> None:
    claim = ctx.object
    if volume.spec.claim_ref is None or volume.spec.claim_ref.uid != claim.metadata.uid:
        marks = {} if volume.spec.claim_ref else {"annotations": {binding.BOUND_BY_CONTROLLER: "yes"}}
        change = {
            "metadata": {"resourceVersion": volume.metadata.resource_version, **marks},
            "spec": {"claimRef": msgspec.to_builtins(reference_to(claim))},
        }
        volume = await ctx.patch(volume, MergePatch(change))
    if not binding.is_bound(claim):
        annotations = {BIND_COMPLETED: "yes"}
        if not claim.spec.volume_name:
            annotations[binding.BOUND_BY_CONTROLLER] = "yes"
        change = {
            "metadata": {"resourceVersion": claim.metadata.resource_version, "annotations": annotations},
            "spec": {"volumeName": volume.metadata.name},
        }
        await ctx.patch(claim, MergePatch(change))
    capacity = claim.status.capacity or dict(volume.spec.capacity)
    if claim.status.phase != "Bound":
        capacity = dict(volume.spec.capacity)
    await ctx.update_status(
        msgspec.structs.replace(
            claim.status, phase="Bound", access_modes=list(volume.spec.access_modes), capacity=capacity
        )
    )


async def _ask_provisioner(ctx: Context[PersistentVolumeClaim], provisioner: str) -> None:
    claim = ctx.object
    if any(claim.metadata.annotations.get(key) != provisioner for key in binding.PROVISIONERS):
        metadata = {
            "resourceVersion": claim.metadata.resource_version,
            "annotations": dict.fromkeys(binding.PROVISIONERS, provisioner),
        }
        await ctx.patch(claim, MergePatch({"metadata": metadata}))
    note = f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the "
    note += "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
    await _hold_up(ctx, "ExternalProvisioning", note + "correctly registered.")


async def _hold_up(ctx: Context[PersistentVolumeClaim], reason: str, note: str, *, warning: bool = False) -> None:
    await _set_phase(ctx, "Pending")
    record = ctx.events.warning if warning else ctx.events.normal
    record(ctx.object, reason, note, action="Binding")


async def _set_phase(ctx: Context[PersistentVolumeClaim], phase: str) -> None:
    await ctx.update_status(msgspec.structs.replace(ctx.object.status, phase=phase))


async def _class_of(ctx: Context[PersistentVolumeClaim]) -> StorageClass | None:
    name = ctx.object.spec.storage_class_name
    if not name:
        return None
    return await ctx.get_or_none(StorageClass, name)


async def _default_class(ctx: Context[PersistentVolumeClaim]) -> str | None:
    """Return the default class, of several the newest. A claim that was created before it has no class yet."""
    marked = [each for each in await ctx.list(StorageClass) if _is_default(each)]
    newest = max(marked, key=lambda each: str(each.metadata.creation_timestamp), default=None)
    return newest.metadata.name if newest is not None else None


def _is_default(storage_class: StorageClass) -> bool:
    return storage_class.metadata.annotations.get(_DEFAULT_CLASS) == "true"


async def _kept_for(ctx: Context[PersistentVolumeClaim]) -> bool:
    """Return whether a volume is reserved for the claim."""
    volumes = await ctx.list(PersistentVolume)
    return any(binding.is_reference_to(volume.spec.claim_ref, ctx.object) for volume in volumes)


def _by_class(claim: PersistentVolumeClaim) -> Iterable[str]:
    """Index function: claims that wait for a volume, by their class."""
    if binding.is_bound(claim):
        return []
    return [_NO_CLASS if claim.spec.storage_class_name is None else claim.spec.storage_class_name]


def _of_volume(volume: PersistentVolume, claims: Lister[PersistentVolumeClaim]) -> Iterable[Request]:
    """Return the claim of a volume; for a free volume, the claims that wait for one of its class."""
    reference = volume.spec.claim_ref
    if reference is not None:
        return [Request(reference.namespace, reference.name or "")]
    name = volume.spec.storage_class_name or ""
    return _waiting(claims, name) + ([] if name else _waiting(claims, _NO_CLASS))


def _of_class(storage_class: StorageClass, claims: Lister[PersistentVolumeClaim]) -> Iterable[Request]:
    without = _waiting(claims, _NO_CLASS) if _is_default(storage_class) else []
    return _waiting(claims, storage_class.metadata.name) + without


def _waiting(claims: Lister[PersistentVolumeClaim], storage_class: str) -> list[Request]:
    waiting = claims.by_index(_CLASS, storage_class)
    return [Request(claim.metadata.namespace, claim.metadata.name) for claim in waiting]


def claim_controller() -> Controller[PersistentVolumeClaim]:
    """Return the controller of claims, one half of `persistentvolume-binder-controller`."""
    declare = controller(
        PersistentVolumeClaim,
        name="persistentvolume-binder-controller",
        watches=[Watch.mapped(PersistentVolume, _of_volume), Watch.mapped(StorageClass, _of_class)],
        writes=[PersistentVolume],
        indexers={_CLASS: _by_class},
        workers=1,  # two claims must not choose the same volume
    )
    return declare(reconcile)
