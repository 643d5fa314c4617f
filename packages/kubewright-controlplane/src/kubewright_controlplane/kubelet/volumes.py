"""What a pod's claims say to the scheduler: whether it has to wait for them, and which nodes they leave.

A claim that is bound ties the pod to the nodes its volume can be reached from. One that is not bound holds the pod up;
with a class that waits for the first consumer (`WaitForFirstConsumer`) the scheduler chooses a node first, says so on
the claim, and waits for the volume to be made there.

Follows kubernetes/pkg/scheduler/framework/plugins/volumebinding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kubewright.apis.core.v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubewright.apis.storage.v1 import StorageClass
from kubewright.client._patch import MergePatch
from kubewright.controllers import Context
from kubewright_controlplane.scheduler import affinity

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
WAIT: Final = "WaitForFirstConsumer"


def claims_of(pod: Pod) -> list[str]:
    """The names of the claims that a pod mounts, those included that are made for it."""
    names: list[str] = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{pod.metadata.name}-{volume.name}")
    return names


@dataclass(slots=True)
class VolumeCheck:
    """The claims of one pod, looked at once for all nodes."""

    ctx: Context[Pod]
    fault: str = ""
    """Why no node will do; empty when one may."""
    waiting: Sequence[PersistentVolumeClaim] = ()
    """Claims whose volumes are made when the node is known."""
    volumes: Sequence[PersistentVolume] = ()

    @classmethod
    async def of(cls, ctx: Context[Pod]) -> VolumeCheck:
        waiting: list[PersistentVolumeClaim] = []
        volumes: list[PersistentVolume] = []
        for name in claims_of(ctx.object):
            claim = await ctx.get_or_none(PersistentVolumeClaim, name)
            if claim is None:
                return cls(ctx, f'persistentvolumeclaim "{name}" not found')
            if claim.metadata.deletion_timestamp is not None:
                return cls(ctx, f'persistentvolumeclaim "{name}" is being deleted')
            if claim.spec.volume_name and BIND_COMPLETED in claim.metadata.annotations:
                volume = await ctx.get_or_none(PersistentVolume, claim.spec.volume_name)
                if volume is None:
                    return cls(ctx, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")
                volumes.append(volume)
            elif await _waits(ctx, claim):
                waiting.append(claim)
            else:
                return cls(ctx, "pod has unbound immediate PersistentVolumeClaims")
        return cls(ctx, "", waiting, volumes)

    def refusal(self, node: Node) -> str | None:
        """Why the pod's volumes can't be had on the node; None when they can."""
        for volume in self.volumes:
            required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
            if required and not any(affinity.term_matches(term, node) for term in required.node_selector_terms):
                return "node(s) had volume node affinity conflict"
        return None

    async def provided(self, node: str) -> bool:
        """Whether all volumes are there. Those that are not are asked for, on `node`."""
        for claim in self.waiting:
            if claim.metadata.annotations.get(SELECTED_NODE) != node:
                metadata = {
                    "resourceVersion": claim.metadata.resource_version,
                    "annotations": {SELECTED_NODE: node},
                }
                await self.ctx.patch(claim, MergePatch({"metadata": metadata}))
        return not self.waiting


async def _waits(ctx: Context[Pod], claim: PersistentVolumeClaim) -> bool:
    if not claim.spec.storage_class_name:
        return False
    storage_class = await ctx.get_or_none(StorageClass, claim.spec.storage_class_name)
    return storage_class is not None and storage_class.volume_binding_mode == WAIT
