"""A provisioner of volumes, in place of a CSI driver. Pods that run as processes find a folder, simulated ones nothing.

It serves every StorageClass whose `provisioner` is `NAME`. The class `standard` is created at the start, as the default
for claims without a class. A claim that is expanded gets its size immediately, if its class allows it.

Follows https://kubernetes.io/docs/concepts/storage/dynamic-provisioning/ and kubernetes-csi's external-provisioner.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import msgspec

from kubewright.apis.core.v1 import (
    CSIPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
)
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.apis.storage.v1 import StorageClass
from kubewright.client._client import Client
from kubewright.client._patch import MergePatch
from kubewright.client._rest import reference_to
from kubewright.controllers import Context, Controller, Request, Watch, controller
from kubewright.machinery.errors import AlreadyExists
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.common import binding
from kubewright_controlplane.common.volumes import PROVISIONER

NAME: Final = PROVISIONER
DEFAULT_CLASS: Final = "standard"


async def reconcile(ctx: Context[PersistentVolumeClaim]) -> None:
    claim = ctx.object
    storage_class = await ctx.get_or_none(StorageClass, claim.spec.storage_class_name or "none")
    if storage_class is None or storage_class.provisioner != NAME:
        return
    if claim.metadata.annotations.get(binding.PROVISIONERS[-1]) == NAME and not claim.spec.volume_name:
        await _provision(ctx, storage_class)
    elif binding.is_bound(claim) and _has(claim) < binding.requested_by(claim):
        await _grow(ctx)


async def _provision(ctx: Context[PersistentVolumeClaim], storage_class: StorageClass) -> None:
    """Create the claim's volume. Its name contains the claim's UID, so that there is only one."""
    claim = ctx.object
    name = f"pvc-{claim.metadata.uid}"
    volume = PersistentVolume(
        metadata=ObjectMeta(name=name, annotations={binding.PROVISIONED_BY: NAME}),
        spec=PersistentVolumeSpec(
            capacity={"storage": str(binding.requested_by(claim))},
            access_modes=list(claim.spec.access_modes),
            volume_mode=claim.spec.volume_mode,
            claim_ref=reference_to(claim),
            storage_class_name=storage_class.metadata.name,
            persistent_volume_reclaim_policy=storage_class.reclaim_policy or "Delete",
            mount_options=list(storage_class.mount_options),
            csi=CSIPersistentVolumeSource(driver=NAME, volume_handle=name),
        ),
    )
    with suppress(AlreadyExists):
        await ctx.create(volume)
        ctx.events.normal(
            claim, "ProvisioningSucceeded", f"Successfully provisioned volume {name}", action="Provisioning"
        )


async def _grow(ctx: Context[PersistentVolumeClaim]) -> None:
    claim = ctx.object
    volume = await ctx.get(PersistentVolume, claim.spec.volume_name or "")
    size = {"storage": str(binding.requested_by(claim))}
    if binding.capacity_of(volume) < binding.requested_by(claim):
        await ctx.patch(volume, MergePatch({"spec": {"capacity": size}}))
    await ctx.update_status(msgspec.structs.replace(claim.status, capacity=size))
    ctx.events.normal(claim, "FileSystemResizeSuccessful", "Resized the volume", action="Resizing")


def _has(claim: PersistentVolumeClaim) -> Quantity:
    return Quantity.of(claim.status.capacity.get("storage", "0"))


async def register_default_class(client: Client) -> None:
    """Create the default StorageClass, unless it exists."""
    marks = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage_class = StorageClass(
        metadata=ObjectMeta(name=DEFAULT_CLASS, annotations=marks),
        provisioner=NAME,
        reclaim_policy="Delete",
        volume_binding_mode="Immediate",
        allow_volume_expansion=True,
    )
    with suppress(AlreadyExists):  # kept from an earlier run
        await client.create(storage_class)


def _of_volume(volume: PersistentVolume, _: object) -> Iterable[Request]:
    reference = volume.spec.claim_ref
    return [Request(reference.namespace, reference.name or "")] if reference is not None else []


def provisioner() -> Controller[PersistentVolumeClaim]:
    """Return the controller `simulated-provisioner`."""
    declare = controller(
        PersistentVolumeClaim,
        name="simulated-provisioner",
        watches=[Watch.mapped(PersistentVolume, _of_volume)],
        cached=[StorageClass],
        writes=[PersistentVolume],
        namespace_ending="stop",
    )
    return declare(reconcile)
