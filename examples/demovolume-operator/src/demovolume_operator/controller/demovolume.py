"""The controller of DemoVolume: it alone makes claims and lets them grow.

A claim is made whenever there is none. Whoever wants a new one, a VolumeOperation or a person, deletes the old one.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final, NamedTuple

from kubewright import AlreadyExists, Context, Forbidden, Invalid, Result, Watch, controller, set_condition
from kubewright.apis.core.v1 import PersistentVolumeClaim
from kubewright.client import MergePatch
from kubewright.controllers import Request

from demovolume_operator.api.v1.demovolume import READY, DemoVolume
from demovolume_operator.controller.claims import (
    STORAGE,
    asked_of,
    belongs_to,
    capacity_of,
    claim_for,
    size_of,
    why_left_alone,
)

TRY_AGAIN: Final = Result(requeue_after=timedelta(minutes=1))
"""After a refusal that ends without an event here: a quota is raised, a storage class changed."""
UNSEEN: Final = Result(requeue_after=timedelta(seconds=1))
"""A claim is there that the cache has not seen, and may never see: it can be gone before a broken watch is back."""
AS_IT_SHOULD_BE: Final = ("Bound", "ClaimPending", "ClaimTerminating", "Expanding")


class Verdict(NamedTuple):
    """How a volume stands: a word for programs, a sentence for people."""

    reason: str
    message: str


def of_its_name(claim: PersistentVolumeClaim, _: object) -> Iterable[Request]:
    """A claim that belongs to somebody else may stand in the way of the volume of its name."""
    return [Request(claim.metadata.namespace, claim.metadata.name)]


@controller(DemoVolume, owns=[PersistentVolumeClaim], watches=[Watch.mapped(PersistentVolumeClaim, of_its_name)])
async def reconcile(ctx: Context[DemoVolume]) -> Result | None:
    volume = ctx.object
    claim = await ctx.get_or_none(PersistentVolumeClaim, volume.metadata.name)  # whosever it is
    try:
        if claim is None:
            claim = await make(ctx)
        elif is_to_grow(claim, volume):
            claim = await grow(ctx, claim)
    except AlreadyExists:
        return UNSEEN
    except (Forbidden, Invalid) as error:
        await report(ctx, claim, refused(volume, claim, error))
        return TRY_AGAIN
    await report(ctx, claim, verdict_on(claim, volume))
    return None


async def make(ctx: Context[DemoVolume]) -> PersistentVolumeClaim:
    """Create the claim. Never an apply: that would take over a claim which somebody else makes at this moment."""
    claim = await ctx.create(claim_for(ctx.object))
    ctx.log.info("PersistentVolumeClaim created", object=claim.metadata.name, size=str(asked_of(claim)))
    note = f'PersistentVolumeClaim "{claim.metadata.name}" of {asked_of(claim)} was made'
    ctx.events.normal(ctx.object, "ClaimCreated", note, action="CreateClaim")
    return claim


def is_to_grow(claim: PersistentVolumeClaim, volume: DemoVolume) -> bool:
    """Only a claim that is bound can grow; another one does so once it is."""
    stays = belongs_to(claim, volume) and claim.metadata.deletion_timestamp is None
    return stays and claim.status.phase == "Bound" and asked_of(claim) < size_of(volume)


async def grow(ctx: Context[DemoVolume], claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    before, after = str(asked_of(claim)), str(size_of(ctx.object))
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
    note = f'PersistentVolumeClaim "{claim.metadata.name}" is to grow from {before} to {after}'
    ctx.events.normal(ctx.object, "ExpansionAsked", note, action="ExpandClaim")
    return grown


def refused(volume: DemoVolume, claim: PersistentVolumeClaim | None, error: Forbidden | Invalid) -> Verdict:
    name, size = volume.metadata.name, size_of(volume)
    if claim is None:
        return Verdict("ClaimRefused", f'PersistentVolumeClaim "{name}" of {size} cannot be made: {error}')
    storage_class = f'StorageClass "{claim.spec.storage_class_name}"' if claim.spec.storage_class_name else "no class"
    return Verdict(
        "ExpansionRefused",
        f'PersistentVolumeClaim "{name}" cannot grow from {asked_of(claim)} to {size}. It has {storage_class}: only a '
        f"class with allowVolumeExpansion: true lets claims grow. The API server says: {error}",
    )


def verdict_on(claim: PersistentVolumeClaim, volume: DemoVolume) -> Verdict:
    named = f'PersistentVolumeClaim "{claim.metadata.name}"'
    if not belongs_to(claim, volume):
        return Verdict("ClaimNotOwned", why_left_alone(claim))
    if claim.metadata.deletion_timestamp is not None:
        return Verdict("ClaimTerminating", f"{named} is being deleted; another one is made when it is gone")
    if claim.status.phase == "Lost":
        return Verdict("ClaimLost", f"the PersistentVolume of {named} is gone, and what was in it")
    if claim.status.phase != "Bound":
        then = f", and then grows to {size_of(volume)}" if asked_of(claim) < size_of(volume) else ""
        return Verdict("ClaimPending", f"{named} of {asked_of(claim)} waits to be bound to a volume{then}")
    if capacity_of(claim) < size_of(volume):
        told = [each.message for each in claim.status.conditions if each.status == "True" and each.message]
        growing = f"{named} has {capacity_of(claim)} and is growing to {size_of(volume)}"
        return Verdict("Expanding", ": ".join((growing, *told)))
    return Verdict("Bound", f"{named} has {capacity_of(claim)}")


async def report(ctx: Context[DemoVolume], claim: PersistentVolumeClaim | None, verdict: Verdict) -> None:
    """Say in the status how it stands, and tell when that is something new."""
    volume, status = ctx.object, ctx.object.status
    if status.name != volume.spec.name:
        ctx.log.info("DemoVolume status.name change", before=status.name, after=volume.spec.name)
    status.name = volume.spec.name
    status.observed_generation = volume.metadata.generation or 0
    own = claim if claim is not None and belongs_to(claim, volume) else None
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
        tell = ctx.events.normal if verdict.reason in AS_IT_SHOULD_BE else ctx.events.warning
        tell(volume, verdict.reason, verdict.message, action="KeepClaim")
        ctx.log.info("DemoVolume Ready change", reason=verdict.reason, message=verdict.message)


def phase_of(claim: PersistentVolumeClaim) -> str:
    return "Terminating" if claim.metadata.deletion_timestamp is not None else claim.status.phase or "Pending"
