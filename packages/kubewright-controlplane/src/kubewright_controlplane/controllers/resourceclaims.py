"""The resource claim controller: creates the ResourceClaims of Pods from templates, and ends claims that nobody needs.

The claims that it creates are owned by their Pod, and named in the Pod's status. Nothing allocates devices here: a
driver or a scheduler of your own may.

Follows kubernetes/pkg/controller/resourceclaim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from kubewright.apis.core.v1 import Pod, PodResourceClaim, PodResourceClaimStatus
from kubewright.apis.meta.v1 import ObjectMeta, OwnerReference
from kubewright.apis.resource.v1 import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate
from kubewright.cache._store import Lister
from kubewright.client import MergePatch
from kubewright.client._client import Client
from kubewright.controllers import Context, Controller, Request, Watch, controller
from kubewright.controllers._context import controller_of
from kubewright.controllers.predicates import AnyEvent, Predicate
from kubewright.machinery.errors import NotFound
from kubewright_controlplane.common import pods

NAME: Final = "resourceclaim-controller"
_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
"""The annotation with the name of the claim in the Pod's spec."""
_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_LONGEST_BASE: Final = 57
"""Characters of a generated name without a hyphen and the five random characters at its end."""
_MOST_CONSUMERS: Final = 256


class PodClaims:
    """Creates the missing claims of one Pod, and reserves those that are allocated."""

    async def reconcile(self, ctx: Context[Pod]) -> None:
        pod = ctx.object
        if pod.metadata.deletion_timestamp is not None:
            return
        status = msgspec.structs.replace(pod.status)
        claims = {each.name: each for each in status.resource_claim_statuses}
        for each in pod.spec.resource_claims:
            if each.resource_claim_template_name is not None and await _is_missing(ctx, claims.get(each.name)):
                claim = await _find(ctx, each.name) or await _create(ctx, each)
                if claim is None:
                    return
                claims[each.name] = PodResourceClaimStatus(name=each.name, resource_claim_name=claim.metadata.name)
        status.resource_claim_statuses = list(claims.values())
        await ctx.update_status(status)
        if pod.spec.node_name:
            for name in _names(pod.spec.resource_claims, status.resource_claim_statuses):
                await _reserve(ctx, name)


async def _is_missing(ctx: Context[Pod], known: PodResourceClaimStatus | None) -> bool:
    """Return whether a claim of the Pod has to be created."""
    if known is None:
        return True
    if known.resource_claim_name is None:
        return False  # decided before: the Pod needs none
    claim = await ctx.get_or_none(ResourceClaim, known.resource_claim_name)
    return claim is None or not _belongs_to(claim, ctx.object)


def _belongs_to(claim: ResourceClaim, pod: Pod) -> bool:
    owner = controller_of(claim)
    return owner is not None and owner.uid == pod.metadata.uid


async def _find(ctx: Context[Pod], name: str) -> ResourceClaim | None:
    """Return the claim that was created before, if the Pod's status does not name it yet."""
    owned = (await ctx.list(ResourceClaim, owned=True)).items
    return next((each for each in owned if each.metadata.annotations.get(_CLAIM) == name), None)


async def _create(ctx: Context[Pod], wanted: PodResourceClaim) -> ResourceClaim | None:
    """Create a claim from its template. Returns None, after a warning, if there is no template."""
    pod, name = ctx.object, wanted.resource_claim_template_name
    assert name is not None
    template = await ctx.get_or_none(ResourceClaimTemplate, name)
    if template is None:
        missing = f'resourceclaimtemplate.resource.k8s.io "{name}" not found'
        note = f'PodResourceClaim {wanted.name}: resource claim template "{name}": {missing}'
        ctx.events.warning(pod, "FailedResourceClaimCreation", note, action="Create")
        return None
    given = template.spec.metadata
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
    )  # fmt: skip
    metadata = ObjectMeta(
        generate_name=_base(pod.metadata.name, wanted.name),
        namespace=pod.metadata.namespace,
        labels=given.labels,
        annotations={**given.annotations, _CLAIM: wanted.name},
        owner_references=[owner],
    )
    return await ctx.client.create(ResourceClaim(metadata=metadata, spec=template.spec.spec))


def _base(pod: str, claim: str) -> str:
    """Return the beginning of the name of a claim; of long names, both are cut in proportion."""
    length = len(f"{pod}-{claim}-")
    if length <= _LONGEST_BASE:
        return f"{pod}-{claim}-"
    return f"{pod[: len(pod) * _LONGEST_BASE // length]}-{claim[: len(claim) * _LONGEST_BASE // length]}"


async def _reserve(ctx: Context[Pod], name: str) -> None:
    """Reserve an allocated claim for a Pod that was bound to a node without a scheduler."""
    claim, pod = await ctx.get_or_none(ResourceClaim, name), ctx.object
    if claim is None or claim.status.allocation is None or len(claim.status.reserved_for) >= _MOST_CONSUMERS:
        return
    if all(each.uid != pod.metadata.uid for each in claim.status.reserved_for):
        consumer = ResourceClaimConsumerReference(name=pod.metadata.name, resource="pods", uid=pod.metadata.uid)
        reserved = msgspec.to_builtins([*claim.status.reserved_for, consumer])
        metadata = {"resourceVersion": claim.metadata.resource_version}
        patch = MergePatch({"metadata": metadata, "status": {"reservedFor": reserved}})
        await ctx.patch(claim, patch, subresource="status")


class Claims:
    """Removes the Pods that are gone or done from a claim, and deletes a claim whose Pod is done."""

    def __init__(self, live: Client) -> None:
        self._live = live

    async def reconcile(self, ctx: Context[ResourceClaim]) -> None:
        claim = ctx.object
        reserved = claim.status.reserved_for
        remaining = [each for each in reserved if await self._is_needed(each, claim.metadata.namespace)]
        is_protected = _FINALIZER in claim.metadata.finalizers
        is_released = len(remaining) < len(reserved) or claim.metadata.deletion_timestamp is not None
        if is_released:
            status = msgspec.structs.replace(claim.status, reserved_for=remaining)
            if is_protected and not remaining:
                status.allocation = None
            await ctx.update_status(status, if_unchanged=True)
            if is_protected and status.allocation is None:
                kept = [each for each in claim.metadata.finalizers if each != _FINALIZER]
                await ctx.patch(claim, MergePatch({"metadata": {"finalizers": kept}}))
        if not remaining and claim.metadata.deletion_timestamp is None:
            await self._delete_unneeded(ctx)

    async def _is_needed(self, consumer: ResourceClaimConsumerReference, namespace: str) -> bool:
        if consumer.api_group or consumer.resource != "pods":
            return True
        pod = await self._live.get_or_none(Pod, consumer.name, namespace=namespace)
        return pod is not None and pod.metadata.uid == consumer.uid and not _is_done(pod)

    async def _delete_unneeded(self, ctx: Context[ResourceClaim]) -> None:
        """Delete a claim that was created for a Pod which is done. The garbage collector deletes that of a Pod which
        is gone.
        """
        owner = controller_of(ctx.object)
        if owner is None or owner.kind != "Pod" or owner.api_version != "v1":
            return
        pod = await ctx.get_or_none(Pod, owner.name)
        if pod is not None and (pod.metadata.uid != owner.uid or _is_done(pod)):
            try:
                await ctx.delete(ctx.object)
            except NotFound:
                return


def _is_done(pod: Pod) -> bool:
    return pods.is_finished(pod) or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)


def _names(claims: Iterable[PodResourceClaim], made: Iterable[PodResourceClaimStatus]) -> Iterator[str]:
    """Yield the names of a Pod's claims that exist."""
    found = {each.name: each.resource_claim_name for each in made}
    for each in claims:
        name = each.resource_claim_name or found.get(each.name)
        if name:
            yield name


def _claims_of(pod: Pod, claims: Lister[ResourceClaim]) -> Iterable[Request]:
    for name in _names(pod.spec.resource_claims, pod.status.resource_claim_statuses):
        yield Request(pod.metadata.namespace, name)


def _pods_of_template(template: ResourceClaimTemplate, lister: Lister[Pod]) -> Iterable[Request]:
    for pod in lister.list(namespace=template.metadata.namespace):
        if any(each.resource_claim_template_name == template.metadata.name for each in pod.spec.resource_claims):
            yield Request(pod.metadata.namespace, pod.metadata.name)


def _pods_of_claim(claim: ResourceClaim, lister: Lister[Pod]) -> Iterable[Request]:
    for pod in lister.list(namespace=claim.metadata.namespace):
        if claim.metadata.name in _names(pod.spec.resource_claims, pod.status.resource_claim_statuses):
            yield Request(pod.metadata.namespace, pod.metadata.name)


def _may_have_claims(event: AnyEvent) -> bool:
    """Return whether a Pod may have claims, without decoding it."""
    entry = event.new or event.old
    return entry is not None and b'"resourceClaims":' in entry.data


def pod_claims_controller() -> Controller[Pod]:
    """Return the part of `resourceclaim-controller` that creates claims."""
    declare = controller(
        Pod,
        name=NAME,
        predicate=Predicate(_may_have_claims),
        owns=[ResourceClaim],
        watches=[
            Watch.mapped(ResourceClaimTemplate, _pods_of_template),
            Watch.mapped(ResourceClaim, _pods_of_claim),
        ],
        namespace_ending="stop",
    )
    return declare(PodClaims())


def claims_controller(live: Client) -> Controller[ResourceClaim]:
    """Return the part of `resourceclaim-controller` that ends claims. `live` reads from the server."""
    declare = controller(
        ResourceClaim,
        name=f"{NAME}-cleanup",
        watches=[Watch.mapped(Pod, _claims_of, predicate=Predicate(_may_have_claims))],
    )
    return declare(Claims(live))
