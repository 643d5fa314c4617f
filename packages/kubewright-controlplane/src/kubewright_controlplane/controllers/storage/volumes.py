"""Reports each volume available, bound, or released after its claim was deleted.

Follows kubernetes/pkg/controller/volume/persistentvolume and
https://kubernetes.io/docs/concepts/storage/persistent-volumes/#reclaiming.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubewright.apis.core.v1 import PersistentVolume, PersistentVolumeClaim
from kubewright.client._client import Client
from kubewright.controllers import Context, Controller, DeletedContext, Request, Watch, controller
from kubewright_controlplane.common import binding


class VolumeReconciler:
    """Keeps the phase of each volume."""

    def __init__(self, live: Client, simulated: str) -> None:
        """`live` reads from the server, because a cache may not show a claim yet.

        Volumes of the provisioner `simulated` are deleted if their class says so. Other provisioners delete their own.
        """
        self._live = live
        self._simulated = simulated

    async def reconcile(self, ctx: Context[PersistentVolume] | DeletedContext[PersistentVolume]) -> None:
        if isinstance(ctx, DeletedContext):
            return
        volume = ctx.object
        phase = await self._phase(ctx)
        if volume.status.phase != phase:
            await ctx.update_status(msgspec.structs.replace(volume.status, phase=phase))
        if phase == "Released" and self._is_to_be_deleted(volume) and volume.metadata.deletion_timestamp is None:
            await ctx.delete(volume)

    async def _phase(self, ctx: Context[PersistentVolume]) -> str:
        reference = ctx.object.spec.claim_ref
        if reference is None or not reference.uid:
            return "Available"
        claim = await self._find(ctx, reference.name or "", reference.namespace or "")
        if claim is None or claim.metadata.uid != reference.uid:
            return "Released"
        return "Bound"

    async def _find(self, ctx: Context[PersistentVolume], name: str, namespace: str) -> PersistentVolumeClaim | None:
        claim = await ctx.get_or_none(PersistentVolumeClaim, name, namespace=namespace)
        return claim or await self._live.get_or_none(PersistentVolumeClaim, name, namespace=namespace)

    def _is_to_be_deleted(self, volume: PersistentVolume) -> bool:
        ours = volume.metadata.annotations.get(binding.PROVISIONED_BY) == self._simulated
        return ours and volume.spec.persistent_volume_reclaim_policy == "Delete"


def _of_claim(claim: PersistentVolumeClaim, _: object) -> Iterable[Request]:
    return [Request(None, claim.spec.volume_name)] if claim.spec.volume_name else []


def volume_controller(live: Client, simulated: str) -> Controller[PersistentVolume]:
    """Return the controller of volumes, one half of `persistentvolume-binder-controller`."""
    declare = controller(
        PersistentVolume,
        name="persistentvolume-binder-controller-volumes",
        watches=[Watch.mapped(PersistentVolumeClaim, _of_claim)],
        reconcile_deleted=True,  # a volume that is being deleted may be released too
    )
    return declare(VolumeReconciler(live, simulated))
