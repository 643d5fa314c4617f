"""The controller of VolumeOperation: executes each operation exactly once.

An operation records the uid of the claim before it deletes the claim, and it deletes no other claim. After a crash, the
next process compares the record with the live claim to find the next step: the recorded claim exists, no claim exists,
or a new one does. The controller of DemoVolume creates the new claim.

Operations are rare and destroy data, so this controller reads volume and claim from the server, not from the cache.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, NamedTuple, TypeVar

from kubewright import Context, PolicyRule, Result, Watch, controller, set_condition
from kubewright.apis.core.v1 import PersistentVolumeClaim, Pod
from kubewright.cache import Lister
from kubewright.controllers import Request, is_controlled_by
from kubewright.machinery.time import truncate
from kubewright.models import Object

from demovolume_operator.api.v1.demovolume import DemoVolume
from demovolume_operator.api.v1.volumeoperation import SUCCEEDED, Phase, VolumeOperation
from demovolume_operator.controller.claims import not_owned_message

BY_VOLUME: Final = "volume"
"""The index of unfinished operations by the name of their volume."""
FINISHED: Final = ("Succeeded", "Failed")
CHECK_INTERVAL: Final = timedelta(seconds=10)
"""Interval of checks while an operation runs: Pods that use the claim are not watched."""

T = TypeVar("T", bound=Object)


class Stage(NamedTuple):
    """The progress of an operation: its phase, and the reason and message of its condition."""

    phase: Phase
    reason: str
    message: str
    requeue_after: timedelta | None = None
    """When to reconcile again if nothing changes."""


class Target(NamedTuple):
    """The objects that an operation works on."""

    volume: DemoVolume
    claim: PersistentVolumeClaim


def unfinished_by_volume(operation: VolumeOperation) -> Iterable[str]:
    """Return the index value of an operation that has not ended: the name of its volume."""
    ended = operation.status.phase in FINISHED or operation.metadata.deletion_timestamp is not None
    return [] if ended else [operation.spec.volume]


def operations_on_same_volume(other: VolumeOperation, operations: Lister[VolumeOperation]) -> Iterable[Request]:
    """Return the unfinished operations on the same volume: one of them may start now."""
    found = operations.keys_by_index(BY_VOLUME, other.spec.volume)
    return [key for key in found if key.namespace == other.metadata.namespace]


@controller(
    VolumeOperation,
    indexers={BY_VOLUME: unfinished_by_volume},
    watches=[
        Watch.indexed(DemoVolume, BY_VOLUME),
        Watch.indexed(PersistentVolumeClaim, BY_VOLUME),
        Watch.mapped(VolumeOperation, operations_on_same_volume),
    ],
    writes=[PersistentVolumeClaim],
    rules=[PolicyRule(api_groups=[""], resources=["pods"], verbs=["list"])],
    workers=1,  # two workers could start two operations on one volume
)
async def reconcile(ctx: Context[VolumeOperation]) -> Result | None:
    phase = ctx.object.status.phase
    if phase in FINISHED:
        return None
    stage = await (resume(ctx) if phase == "Running" else start(ctx))
    await report(ctx, stage)
    return Result(requeue_after=stage.requeue_after) if stage.requeue_after else None


async def start(ctx: Context[VolumeOperation]) -> Stage:
    """Record the target and execute the first step, unless the operation has to wait or is too late."""
    operation, status = ctx.object, ctx.object.status
    seconds = operation.spec.starting_deadline_seconds
    left = created(operation) + timedelta(seconds=seconds) - ctx.clock.now()
    found = await target_of(ctx)
    if isinstance(found, Stage):
        if left > timedelta(0):
            return found._replace(requeue_after=left)
        return Stage("Failed", found.reason, f"not started within {seconds} s: {found.message}")
    if left < timedelta(0):
        return Stage("Failed", "DeadlineExceeded", f"not started within {seconds} s")
    status.volume_uid, status.replaced_claim_uid = found.volume.metadata.uid, found.claim.metadata.uid
    status.start_time = truncate(ctx.clock.now())
    await report(ctx, deleting(ctx))
    return await resume(ctx)


async def target_of(ctx: Context[VolumeOperation]) -> Target | Stage:
    """Return the objects to work on, or why the operation cannot start."""
    name = ctx.object.spec.volume
    ahead = await ahead_of(ctx)
    if ahead is not None:
        return Stage("Pending", "WaitingForTurn", f'VolumeOperation "{ahead}" on DemoVolume "{name}" runs first')
    volume, claim = await live(ctx, DemoVolume), await live(ctx, PersistentVolumeClaim)
    if volume is None:
        return Stage("Pending", "VolumeNotFound", f'DemoVolume "{name}" does not exist')
    if volume.metadata.deletion_timestamp is not None:
        return Stage("Pending", "VolumeDeleted", f'DemoVolume "{name}" is being deleted')
    if claim is None:
        return Stage("Pending", "ClaimNotFound", f'DemoVolume "{name}" has no PersistentVolumeClaim')
    if not is_controlled_by(claim, volume):
        return Stage("Pending", "ClaimNotOwned", not_owned_message(claim))
    if claim.metadata.deletion_timestamp is not None:
        return Stage("Pending", "ClaimTerminating", f'PersistentVolumeClaim "{name}" is already being deleted')
    return Target(volume, claim)


async def ahead_of(ctx: Context[VolumeOperation]) -> str | None:
    """Return the name of the operation to run before this one, if any.

    A running operation comes first, then the oldest one. Names decide between operations of the same second.
    """
    operation = ctx.object
    index = (BY_VOLUME, operation.spec.volume)
    others = await ctx.client.list(VolumeOperation, namespace=ctx.request.namespace, index=index)
    rivals = (operation, *others)  # the cache omits this operation if it was just deleted
    first = min(rivals, key=lambda each: (each.status.phase != "Running", created(each), each.metadata.name))
    return first.metadata.name if first.metadata.uid != operation.metadata.uid else None


async def resume(ctx: Context[VolumeOperation]) -> Stage:
    """Execute the next step. The live claim shows which steps are done."""
    name, status = ctx.object.spec.volume, ctx.object.status
    volume, claim = await live(ctx, DemoVolume), await live(ctx, PersistentVolumeClaim)
    if volume is None or volume.metadata.uid != status.volume_uid or volume.metadata.deletion_timestamp is not None:
        return Stage("Failed", "VolumeDeleted", f'DemoVolume "{name}" was deleted during the operation')
    if claim is None:
        note = f'DemoVolume "{name}" creates the new PersistentVolumeClaim; if it cannot, its condition Ready shows why'
        return Stage("Running", "Creating", note, CHECK_INTERVAL)
    if not is_controlled_by(claim, volume):
        return Stage("Failed", "ClaimNotOwned", not_owned_message(claim))
    if claim.metadata.uid != status.replaced_claim_uid:
        status.new_claim_uid = claim.metadata.uid
        return Stage("Succeeded", "Rebuilt", f'PersistentVolumeClaim "{name}" was replaced')
    if claim.metadata.deletion_timestamp is not None:
        return await waiting_for_release(ctx, claim)
    await delete(ctx, claim)
    return deleting(ctx)


def deleting(ctx: Context[VolumeOperation]) -> Stage:
    note = f'PersistentVolumeClaim "{ctx.object.spec.volume}" is being replaced'
    return Stage("Running", "Deleting", note, CHECK_INTERVAL)


async def delete(ctx: Context[VolumeOperation], claim: PersistentVolumeClaim) -> None:
    """Delete the claim. Raises Conflict if it changed since it was read."""
    await ctx.delete(claim, if_unchanged=True)
    ctx.log.info("PersistentVolumeClaim deleted", object=claim.metadata.name, uid=claim.metadata.uid)


async def waiting_for_release(ctx: Context[VolumeOperation], claim: PersistentVolumeClaim) -> Stage:
    """Return the stage of an operation whose claim is being deleted, with what still holds the claim."""
    waits = f'PersistentVolumeClaim "{claim.metadata.name}" is deleted when'
    pods = await ctx.client.uncached.list(Pod, namespace=ctx.request.namespace)
    users = [f'"{each.metadata.name}"' for each in pods if uses(each, claim.metadata.name)]
    if users:
        return Stage("Running", "ClaimInUse", f"{waits} Pod {', '.join(users)} no longer uses it", CHECK_INTERVAL)
    holders = ", ".join(claim.metadata.finalizers)
    return Stage("Running", "ClaimTerminating", f"{waits} these finalizers are removed: {holders}", CHECK_INTERVAL)


def uses(pod: Pod, claim: str) -> bool:
    """Return whether the Pod protects the claim from deletion: it is on a node and has not ended."""
    if not pod.spec.node_name or pod.status.phase in FINISHED:
        return False
    sources = [each.persistent_volume_claim for each in pod.spec.volumes]
    return any(each is not None and each.claim_name == claim for each in sources)


async def live(ctx: Context[VolumeOperation], kind: type[T]) -> T | None:
    """Return the object with the name of the volume, read from the server."""
    return await ctx.client.uncached.get_or_none(kind, ctx.object.spec.volume, namespace=ctx.request.namespace)


async def report(ctx: Context[VolumeOperation], stage: Stage) -> None:
    """Write the status, and record an Event if the condition changed.

    Raises Conflict if the operation changed since it was read.
    """
    operation, status = ctx.object, ctx.object.status
    before, status.phase = status.phase, stage.phase
    status.observed_generation = operation.metadata.generation or 0
    if stage.phase in FINISHED:
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
        record = ctx.events.warning if stage.phase == "Failed" else ctx.events.normal
        record(operation, stage.reason, stage.message, action=operation.spec.type)
        if before == stage.phase:
            ctx.log.info("VolumeOperation status.conditions change", reason=stage.reason, message=stage.message)
        else:
            ctx.log.info("VolumeOperation status.phase change", before=before, after=stage.phase, message=stage.message)


def created(operation: VolumeOperation) -> datetime:
    time = operation.metadata.creation_timestamp
    assert time is not None, "the server sets it on every object"
    return time
