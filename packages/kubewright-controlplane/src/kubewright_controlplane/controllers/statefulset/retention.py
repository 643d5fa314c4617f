"""The claims of a StatefulSet that is deleted or scaled down: they get owners, or none, by its policy.

Follows https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#persistentvolumeclaim-retention.
"""

from __future__ import annotations

import msgspec

from kubewright.apis.apps.v1 import StatefulSet
from kubewright.apis.core.v1 import PersistentVolumeClaim, Pod
from kubewright.apis.meta.v1 import OwnerReference, owner_reference
from kubewright.client._patch import MergePatch
from kubewright.controllers import Context
from kubewright.models import Object
from kubewright_controlplane.controllers.statefulset import identity
from kubewright_controlplane.controllers.statefulset.plan import Members


async def settle(ctx: Context[StatefulSet], members: Members) -> None:
    """Set the owners of each claim as the policy requires."""
    if not ctx.object.spec.volume_claim_templates:
        return
    for pod in members.places.values():
        if pod is not None:
            await _settle_pod(ctx, pod, condemned=False)
    for pod in members.condemned:
        await _settle_pod(ctx, pod, condemned=True)


async def _settle_pod(ctx: Context[StatefulSet], pod: Pod, *, condemned: bool) -> None:
    stateful_set = ctx.object
    ordinal = identity.ordinal_of(stateful_set, pod)
    for template in stateful_set.spec.volume_claim_templates if ordinal is not None else ():
        claim = await ctx.get_or_none(PersistentVolumeClaim, identity.claim_name(stateful_set, template, ordinal or 0))
        if claim is None:
            continue
        ours = {stateful_set.metadata.uid, pod.metadata.uid}
        others = [each for each in claim.metadata.owner_references if each.uid not in ours]
        wanted = [*others, *_owners(stateful_set, pod, condemned)]
        if wanted != claim.metadata.owner_references:
            version = claim.metadata.resource_version
            change = {"resourceVersion": version, "ownerReferences": msgspec.to_builtins(wanted)}
            await ctx.patch(claim, MergePatch({"metadata": change}))


def _owners(stateful_set: StatefulSet, pod: Pod, condemned: bool) -> list[OwnerReference]:
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    if policy is None:
        return []
    if condemned and policy.when_scaled == "Delete":
        return [_reference(pod)]
    return [_reference(stateful_set)] if policy.when_deleted == "Delete" else []


def _reference(owner: Object) -> OwnerReference:
    return owner_reference(owner)
