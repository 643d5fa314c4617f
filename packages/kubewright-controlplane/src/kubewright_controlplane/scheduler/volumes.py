"""Claims of a Pod in scheduling: which nodes they allow, and whether the Pod has to wait for them.

A bound claim restricts the Pod to the nodes that can reach its volume. A claim that is not bound makes the Pod wait.
If its class has the binding mode `WaitForFirstConsumer`, the scheduler chooses a node first. It reserves an existing
volume that the node reaches, or else annotates the claim with the node and waits until a volume is provisioned there.

Follows kubernetes/pkg/scheduler/framework/plugins/volumebinding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kubewright.apis.core.v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod, TopologySelectorTerm
from kubewright.apis.storage.v1 import StorageClass
from kubewright.client._patch import MergePatch
from kubewright.client._rest import reference_to
from kubewright.controllers import Context
from kubewright_controlplane.common import affinity, binding
from kubewright_controlplane.common.volumes import BIND_COMPLETED, SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, claim_name

_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"


@dataclass(slots=True)
class Waiting:
    """A claim that is bound or provisioned after the node is chosen."""

    claim: PersistentVolumeClaim
    storage_class: StorageClass
    volumes: Sequence[PersistentVolume]
    """Free volumes that fit, on whatever node."""

    def may_be_provisioned_on(self, node: Node) -> bool:
        if self.storage_class.provisioner == _NO_PROVISIONER:
            return False
        terms = self.storage_class.allowed_topologies
        return not terms or any(_term_matches(term, node) for term in terms)


@dataclass(slots=True)
class VolumeCheck:
    """The claims of one Pod, read once for all nodes."""

    ctx: Context[Pod]
    error: str = ""
    """Why no node is suitable; empty if one may be."""
    waiting: Sequence[Waiting] = ()
    """Claims without volumes."""
    volumes: Sequence[PersistentVolume] = ()

    @classmethod
    async def of(cls, ctx: Context[Pod]) -> VolumeCheck:
        waiting: list[Waiting] = []
        volumes: list[PersistentVolume] = []
        for each in ctx.object.spec.volumes:
            name = claim_name(ctx.object, each)
            if name is None:
                continue
            claim = await ctx.get_or_none(PersistentVolumeClaim, name)
            if claim is None:
                return cls(ctx, f'persistentvolumeclaim "{name}" not found')
            if claim.metadata.deletion_timestamp is not None:
                return cls(ctx, f'persistentvolumeclaim "{name}" is being deleted')
            if each.ephemeral is not None and not _belongs_to(claim, ctx.object):
                namespace, pod = ctx.request.namespace, ctx.request.name
                error = f"PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)"
                return cls(ctx, error)
            if claim.spec.volume_name and BIND_COMPLETED in claim.metadata.annotations:
                volume = await ctx.get_or_none(PersistentVolume, claim.spec.volume_name)
                if volume is None:
                    return cls(ctx, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")
                volumes.append(volume)
            elif (storage_class := await _class_that_waits(ctx, claim)) is not None:
                free = [volume for volume in await ctx.list(PersistentVolume) if binding.fits(claim, volume)]
                waiting.append(Waiting(claim, storage_class, free))
            else:
                return cls(ctx, "pod has unbound immediate PersistentVolumeClaims")
        return cls(ctx, "", waiting, volumes)

    def refusal(self, node: Node) -> str | None:
        """Return why the node can't reach the Pod's volumes; None if it can."""
        if not all(_reaches(node, volume) for volume in self.volumes):
            return "node(s) had volume node affinity conflict"
        for each, volume in self._choices(node):
            if volume is None and not each.may_be_provisioned_on(node):
                return _NOTHING_TO_BIND
        return None

    def _choices(self, node: Node) -> list[tuple[Waiting, PersistentVolume | None]]:
        """Return an existing volume for each claim that waits, or None, if the Pod runs on the node."""
        taken: set[str] = set()
        choices: list[tuple[Waiting, PersistentVolume | None]] = []
        for each in self.waiting:
            free = [volume for volume in each.volumes if volume.metadata.name not in taken and _reaches(node, volume)]
            volume = binding.best(each.claim, free)
            taken |= {volume.metadata.name} if volume is not None else set()
            choices.append((each, volume))
        return choices

    async def provided(self, node: Node) -> bool:
        """Return whether all volumes exist. Reserves existing volumes, and requests the missing ones on the node."""
        for each, volume in self._choices(node):
            if volume is None:
                await self._request(each.claim, node.metadata.name)
            elif volume.spec.claim_ref is None:
                await self._reserve(each.claim, volume)
        return not self.waiting

    async def _request(self, claim: PersistentVolumeClaim, node: str) -> None:
        if claim.metadata.annotations.get(SELECTED_NODE) != node:
            metadata = {"resourceVersion": claim.metadata.resource_version, "annotations": {SELECTED_NODE: node}}
            await self.ctx.patch(claim, MergePatch({"metadata": metadata}))

    async def _reserve(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        """Reserve a volume for a claim. The volume controller completes the binding."""
        change = {
            "metadata": {
                "resourceVersion": volume.metadata.resource_version,
                "annotations": {binding.BOUND_BY_CONTROLLER: "yes"},
            },
            "spec": {"claimRef": msgspec.to_builtins(reference_to(claim))},
        }
        await self.ctx.patch(volume, MergePatch(change))


def _reaches(node: Node, volume: PersistentVolume) -> bool:
    required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
    return required is None or any(affinity.term_matches(term, node) for term in required.node_selector_terms)


def _term_matches(term: TopologySelectorTerm, node: Node) -> bool:
    return all(node.metadata.labels.get(each.key) in each.values for each in term.match_label_expressions)


def _belongs_to(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    return any(each.controller and each.uid == pod.metadata.uid for each in claim.metadata.owner_references)


async def _class_that_waits(ctx: Context[Pod], claim: PersistentVolumeClaim) -> StorageClass | None:
    """Return the class of a claim that is not bound before a Pod uses it."""
    if not claim.spec.storage_class_name:
        return None
    storage_class = await ctx.get_or_none(StorageClass, claim.spec.storage_class_name)
    waits = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    return storage_class if waits else None
