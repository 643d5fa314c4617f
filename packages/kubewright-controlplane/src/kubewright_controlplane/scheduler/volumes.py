"""Claims of a Pod in scheduling: which nodes they allow, and whether the Pod has to wait for them.

A bound claim restricts the Pod to the nodes that can reach its volume. A claim that is not bound makes the Pod wait.
If its class has the binding mode `WaitForFirstConsumer`, the scheduler chooses a node first, annotates the claim with
it, and waits until the volume is provisioned there.

Follows kubernetes/pkg/scheduler/framework/plugins/volumebinding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kubewright.apis.core.v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubewright.apis.storage.v1 import StorageClass
from kubewright.client._patch import MergePatch
from kubewright.controllers import Context
from kubewright_controlplane.common import affinity
from kubewright_controlplane.common.volumes import BIND_COMPLETED, SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, claims_of


@dataclass(slots=True)
class VolumeCheck:
    """The claims of one Pod, read once for all nodes."""

    ctx: Context[Pod]
    error: str = ""
    """Why no node is suitable; empty if one may be."""
    waiting: Sequence[PersistentVolumeClaim] = ()
    """Claims whose volumes are provisioned after the node is chosen."""
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
        """Return why the node can't reach the Pod's volumes; None if it can."""
        for volume in self.volumes:
            required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
            if required and not any(affinity.term_matches(term, node) for term in required.node_selector_terms):
                return "node(s) had volume node affinity conflict"
        return None

    async def provided(self, node: str) -> bool:
        """Return whether all volumes exist. Requests the missing ones on `node`."""
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
    return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
