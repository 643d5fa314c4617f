"""The controller of DemoVolume: creates claims and expands them.

It creates a claim whenever there is none. To replace a claim, a VolumeOperation or a user deletes it.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from kubewright import AlreadyExists, Context, Forbidden, Invalid, Result, Watch, controller, set_condition
from kubewright.apis.core.v1 import PersistentVolumeClaim
from kubewright.client import MergePatch
from kubewright.controllers import Request, is_controlled_by

from demovolume_operator.api.v1.demovolume import READY, DemoVolume
from demovolume_operator.controller.claims import (
    STORAGE,
    capacity_of,
    claim_for,
    not_owned_message,
    requested_size,
    size_of,
)

RETRY_REJECTED: Final = Result(requeue_after=60.0)
"""After a rejected write: no watch here reports a raised quota or a changed storage class."""
RETRY_UNSEEN: Final = Result(requeue_after=1.0)
"""A claim exists that the cache does not show. It may be deleted before the watch ever reports it."""
NORMAL_REASONS: Final = ("Bound", "ClaimPending", "ClaimTerminating", "Expanding")
"""Reasons that need no action. All others are reported as warnings."""


class Verdict(NamedTuple):
    """The reason and the message of the condition Ready."""

    reason: str
    message: str


def volume_of_same_name(claim: PersistentVolumeClaim, _: object) -> Iterable[Request]:
    """Return the volume with the name of a claim, even if the claim has another owner: that claim blocks the volume."""
    return [Request(claim.metadata.namespace, claim.metadata.name)]


@controller(
    DemoVolume, owns=[PersistentVolumeClaim], watches=[Watch.mapped(PersistentVolumeClaim, volume_of_same_name)]
)
async def reconcile(ctx: Context[DemoVolume]) -> Result | None:
    volume = ctx.object
    claim = await ctx.get_or_none(PersistentVolumeClaim, volume.metadata.name)  # of any owner
    try:
        if claim is None:
            claim = await create_claim(ctx)
        elif needs_expansion(claim, volume):
            claim = await expand_claim(ctx, claim)
    except AlreadyExists:
        return RETRY_UNSEEN
    except (Forbidden, Invalid) as error:
        await report(ctx, claim, rejection(volume, claim, error))
        return RETRY_REJECTED
    await report(ctx, claim, verdict_for(claim, volume))
    return None


async def create_claim(ctx: Context[DemoVolume]) -> PersistentVolumeClaim:
    """Create the claim. Raises AlreadyExists if another client created it first."""
    claim = await ctx.create(claim_for(ctx.object))
    ctx.log.info("PersistentVolumeClaim created", object=claim.metadata.name, size=str(requested_size(claim)))
    note = f'PersistentVolumeClaim "{claim.metadata.name}" of {requested_size(claim)} was created'
    ctx.events.normal(ctx.object, "ClaimCreated", note, action="CreateClaim")
    return claim


def needs_expansion(claim: PersistentVolumeClaim, volume: DemoVolume) -> bool:
    """Return whether to expand the claim now. Only a bound claim can be expanded; a pending one is expanded later."""
    stays = is_controlled_by(claim, volume) and claim.metadata.deletion_timestamp is None
    return stays and claim.status.phase == "Bound" and requested_size(claim) < size_of(volume)


async def expand_claim(ctx: Context[DemoVolume], claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    before, after = str(requested_size(claim)), str(size_of(ctx.object))
    change = {
        "metadata": {"resourceVersion": claim.metadata.resource_version},
        "spec": {"resources": {"requests": {STORAGE: after}}},
    }
    grown = await ctx.patch(claim, MergePatch(change))
    ctx.log.info(
        "PersistentVolumeClaim spec.resources.requests.storage change",
        object=claim.metadata.name,
        before=before,
        after=after,
    )
    note = f'PersistentVolumeClaim "{claim.metadata.name}" expands from {before} to {after}'
    ctx.events.normal(ctx.object, "ExpansionRequested", note, action="ExpandClaim")
    return grown


def rejection(volume: DemoVolume, claim: PersistentVolumeClaim | None, error: Forbidden | Invalid) -> Verdict:
    name, size = volume.metadata.name, size_of(volume)
    if claim is None:
        return Verdict("ClaimRefused", f'PersistentVolumeClaim "{name}" of {size} cannot be created: {error}')
    storage_class = (
        f'StorageClass "{claim.spec.storage_class_name}"' if claim.spec.storage_class_name else "no StorageClass"
    )
    return Verdict(
        "ExpansionRefused",
        f'PersistentVolumeClaim "{name}" cannot grow from {requested_size(claim)} to {size}. It has {storage_class}. Only a '
        f"class with allowVolumeExpansion: true can expand claims. The API server rejected the change: {error}",
    )


def verdict_for(claim: PersistentVolumeClaim, volume: DemoVolume) -> Verdict:
    named = f'PersistentVolumeClaim "{claim.metadata.name}"'
    if not is_controlled_by(claim, volume):
        return Verdict("ClaimNotOwned", not_owned_message(claim))
    if claim.metadata.deletion_timestamp is not None:
        return Verdict("ClaimTerminating", f"{named} is being deleted; then a new one is created")
    if claim.status.phase == "Lost":
        return Verdict("ClaimLost", f"the PersistentVolume of {named} and its data are lost")
    if claim.status.phase != "Bound":
        then = f" and is then expanded to {size_of(volume)}" if requested_size(claim) < size_of(volume) else ""
        return Verdict("ClaimPending", f"{named} of {requested_size(claim)} waits for a PersistentVolume{then}")
    if capacity_of(claim) < size_of(volume):
        details = [each.message for each in claim.status.conditions if each.status == "True" and each.message]
        growing = f"{named} has {capacity_of(claim)} and is being expanded to {size_of(volume)}"
        return Verdict("Expanding", ": ".join((growing, *details)))
    return Verdict("Bound", f"{named} has {capacity_of(claim)}")


async def report(ctx: Context[DemoVolume], claim: PersistentVolumeClaim | None, verdict: Verdict) -> None:
    """Write the status. Record an Event if the verdict changed."""
    volume, status = ctx.object, ctx.object.status
    if status.name != volume.spec.name:
        ctx.log.info("DemoVolume status.name change", before=status.name, after=volume.spec.name)
    status.name = volume.spec.name
    status.observed_generation = volume.metadata.generation or 0
    own = claim if claim is not None and is_controlled_by(claim, volume) else None
    status.claim_phase = phase_of(own) if own is not None else ""
    status.capacity = str(capacity_of(own)) if own is not None and own.status.capacity else None
    known = [(each.reason, each.message) for each in status.conditions if each.type == READY]
    set_condition(
        status.conditions,
        READY,
        "True" if verdict.reason == "Bound" else "False",
        reason=verdict.reason,
        message=verdict.message,
        observed_generation=volume.metadata.generation,
    )
    await ctx.update_status(status)
    if verdict not in known:
        record = ctx.events.normal if verdict.reason in NORMAL_REASONS else ctx.events.warning
        record(volume, verdict.reason, verdict.message, action="KeepClaim")
        ctx.log.info("DemoVolume Ready change", reason=verdict.reason, message=verdict.message)


def phase_of(claim: PersistentVolumeClaim) -> str:
    return "Terminating" if claim.metadata.deletion_timestamp is not None else claim.status.phase or "Pending"
