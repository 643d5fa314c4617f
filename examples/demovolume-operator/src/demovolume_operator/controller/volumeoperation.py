"""The controller of VolumeOperation: it has something done exactly once.

An operation records which claim it replaces before it deletes it, and deletes no other. So whoever goes on after a
crash knows from the record and the claim that is there how far it got: the recorded one is there, or none, or a new
one. Making the new one is the DemoVolume's business, as always.

Operations are rare and destroy what cannot be brought back: volume and claim are read from the server, not the cache.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, NamedTuple, TypeVar

from kubewright import Context, PolicyRule, Result, Watch, controller, set_condition
from kubewright.apis.core.v1 import PersistentVolumeClaim, Pod
from kubewright.cache import Lister
from kubewright.controllers import Request
from kubewright.machinery.time import truncate
from kubewright.models import Object

from demovolume_operator.api.v1.demovolume import DemoVolume
from demovolume_operator.api.v1.volumeoperation import SUCCEEDED, Phase, VolumeOperation
from demovolume_operator.controller.claims import belongs_to, why_left_alone

VOLUME: Final = "volume"
OVER: Final = ("Succeeded", "Failed")
LOOK_AGAIN: Final = timedelta(seconds=10)
"""While an operation runs: who uses the claim may change without an event here."""

T = TypeVar("T", bound=Object)


class Stage(NamedTuple):
    """How far an operation is: a phase, a word for programs, a sentence for people."""

    phase: Phase
    reason: str
    message: str
    again: timedelta | None = None
    """When to look again, if nothing changes before."""


class Target(NamedTuple):
    """What an operation is carried out on."""

    volume: DemoVolume
    claim: PersistentVolumeClaim


def volume_of(operation: VolumeOperation) -> Iterable[str]:
    """Index function: operations that are not over, by the volume that they are about."""
    ends = operation.status.phase in OVER or operation.metadata.deletion_timestamp is not None
    return [] if ends else [operation.spec.volume]


def waiting(other: VolumeOperation, operations: Lister[VolumeOperation]) -> Iterable[Request]:
    """Those that may have their turn now."""
    found = operations.keys_by_index(VOLUME, other.spec.volume)
    return [key for key in found if key.namespace == other.metadata.namespace]


@controller(
    VolumeOperation,
    indexers={VOLUME: volume_of},
    watches=[
        Watch.indexed(DemoVolume, VOLUME),
        Watch.indexed(PersistentVolumeClaim, VOLUME),
        Watch.mapped(VolumeOperation, waiting),
    ],
    writes=[PersistentVolumeClaim],
    rules=[PolicyRule(api_groups=[""], resources=["pods"], verbs=["list"])],
    workers=1,  # whose turn it is must not be decided twice at once
)
async def reconcile(ctx: Context[VolumeOperation]) -> Result | None:
    phase = ctx.object.status.phase
    if phase in OVER:
        return None
    stage = await (go_on(ctx) if phase == "Running" else begin(ctx))
    await report(ctx, stage)
    return Result(requeue_after=stage.again) if stage.again else None


async def begin(ctx: Context[VolumeOperation]) -> Stage:
    operation, status = ctx.object, ctx.object.status
    seconds = operation.spec.starting_deadline_seconds
    left = created(operation) + timedelta(seconds=seconds) - ctx.clock.now()
    found = await target_of(ctx)
    if isinstance(found, Stage):
        if left > timedelta(0):
            return found._replace(again=left)
        return Stage("Failed", found.reason, f"did not begin within {seconds} s, nothing was done: {found.message}")
    if left < timedelta(0):
        return Stage("Failed", "DeadlineExceeded", f"did not begin within {seconds} s, nothing was done")
    status.volume_uid, status.replaced_claim_uid = found.volume.metadata.uid, found.claim.metadata.uid
    status.start_time = truncate(ctx.clock.now())
    await report(ctx, deleting(ctx))
    return await go_on(ctx)


async def target_of(ctx: Context[VolumeOperation]) -> Target | Stage:
    """What there is to begin with, or what is in the way."""
    name = ctx.object.spec.volume
    ahead = await ahead_of(ctx)
    if ahead is not None:
        return Stage("Pending", "WaitingForTurn", f'VolumeOperation "{ahead}" on DemoVolume "{name}" comes first')
    volume, claim = await live(ctx, DemoVolume), await live(ctx, PersistentVolumeClaim)
    if volume is None:
        return Stage("Pending", "VolumeNotFound", f'there is no DemoVolume "{name}"')
    if volume.metadata.deletion_timestamp is not None:
        return Stage("Pending", "VolumeDeleted", f'DemoVolume "{name}" is being deleted')
    if claim is None:
        return Stage("Pending", "ClaimNotFound", f'DemoVolume "{name}" has no PersistentVolumeClaim')
    if not belongs_to(claim, volume):
        return Stage("Pending", "ClaimNotOwned", why_left_alone(claim))
    if claim.metadata.deletion_timestamp is not None:
        return Stage("Pending", "ClaimTerminating", f'PersistentVolumeClaim "{name}" is being deleted already')
    return Target(volume, claim)


async def ahead_of(ctx: Context[VolumeOperation]) -> str | None:
    """The operation that runs on the volume, else the oldest (of one second: the first by name); None for this one."""
    operation = ctx.object
    index = (VOLUME, operation.spec.volume)
    others = await ctx.client.list(VolumeOperation, namespace=ctx.request.namespace, index=index)
    rivals = (operation, *others)  # where it is missing it has been deleted just now
    first = min(rivals, key=lambda each: (each.status.phase != "Running", created(each), each.metadata.name))
    return first.metadata.name if first.metadata.uid != operation.metadata.uid else None


async def go_on(ctx: Context[VolumeOperation]) -> Stage:
    """Do what is next. What has been done shows in the claim that is there."""
    name, status = ctx.object.spec.volume, ctx.object.status
    volume, claim = await live(ctx, DemoVolume), await live(ctx, PersistentVolumeClaim)
    if volume is None or volume.metadata.uid != status.volume_uid or volume.metadata.deletion_timestamp is not None:
        return Stage("Failed", "VolumeDeleted", f'DemoVolume "{name}" was deleted meanwhile')
    if claim is None:
        note = f'DemoVolume "{name}" is to make the new PersistentVolumeClaim; its condition Ready says what hinders it'
        return Stage("Running", "Making", note, LOOK_AGAIN)
    if not belongs_to(claim, volume):
        return Stage("Failed", "ClaimNotOwned", why_left_alone(claim))
    if claim.metadata.uid != status.replaced_claim_uid:
        status.new_claim_uid = claim.metadata.uid
        return Stage("Succeeded", "Rebuilt", f'PersistentVolumeClaim "{name}" is a new one')
    if claim.metadata.deletion_timestamp is not None:
        return await held(ctx, claim)
    await delete(ctx, claim)
    return deleting(ctx)


def deleting(ctx: Context[VolumeOperation]) -> Stage:
    note = f'PersistentVolumeClaim "{ctx.object.spec.volume}" is deleted, to be made anew'
    return Stage("Running", "Deleting", note, LOOK_AGAIN)


async def delete(ctx: Context[VolumeOperation], claim: PersistentVolumeClaim) -> None:
    """Delete the claim as it was seen, and no other: Conflict when it has changed since."""
    await ctx.delete(claim, if_unchanged=True)
    ctx.log.info("PersistentVolumeClaim deleted", object=claim.metadata.name, uid=claim.metadata.uid)


async def held(ctx: Context[VolumeOperation], claim: PersistentVolumeClaim) -> Stage:
    """Why a claim that was deleted is still there."""
    goes = f'PersistentVolumeClaim "{claim.metadata.name}" goes when'
    pods = await ctx.client.uncached.list(Pod, namespace=ctx.request.namespace)
    users = [f'"{each.metadata.name}"' for each in pods if uses(each, claim.metadata.name)]
    if users:
        return Stage("Running", "ClaimInUse", f"{goes} Pod {', '.join(users)} no longer uses it", LOOK_AGAIN)
    holders = ", ".join(claim.metadata.finalizers)
    return Stage("Running", "ClaimTerminating", f"{goes} it is let go by {holders}", LOOK_AGAIN)


def uses(pod: Pod, claim: str) -> bool:
    """Whether the Pod protects the claim from deletion: it is on a node, and not over."""
    if not pod.spec.node_name or pod.status.phase in OVER:
        return False
    sources = [each.persistent_volume_claim for each in pod.spec.volumes]
    return any(each is not None and each.claim_name == claim for each in sources)


async def live(ctx: Context[VolumeOperation], kind: type[T]) -> T | None:
    """The object of the volume's name, as the server has it now."""
    return await ctx.client.uncached.get_or_none(kind, ctx.object.spec.volume, namespace=ctx.request.namespace)


async def report(ctx: Context[VolumeOperation], stage: Stage) -> None:
    """Record how far it is: Conflict when that was told from an old view. Tell when it is something new."""
    operation, status = ctx.object, ctx.object.status
    before, status.phase = status.phase, stage.phase
    status.observed_generation = operation.metadata.generation or 0
    if stage.phase in OVER:
        status.completion_time = truncate(ctx.clock.now())
    changed = set_condition(
        status.conditions,
        SUCCEEDED,
        "True" if stage.phase == "Succeeded" else "False" if stage.phase == "Failed" else "Unknown",
        reason=stage.reason,
        message=stage.message,
        observed_generation=operation.metadata.generation,
    )
    await ctx.update_status(status, if_unchanged=True)
    if changed:
        tell = ctx.events.warning if stage.phase == "Failed" else ctx.events.normal
        tell(operation, stage.reason, stage.message, action=operation.spec.type)
        if before == stage.phase:
            ctx.log.info("VolumeOperation waits", why=stage.message)
        else:
            ctx.log.info("VolumeOperation status.phase change", before=before, after=stage.phase, why=stage.message)


def created(operation: VolumeOperation) -> datetime:
    time = operation.metadata.creation_timestamp
    assert time is not None, "every object of a server has one"
    return time
