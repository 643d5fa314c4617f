"""The reconciler of StatefulSets.

Follows kubernetes/pkg/controller/statefulset and
https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from kubewright._runtime.clock import Clock
from kubewright.apis.apps.v1 import ControllerRevision, StatefulSet, StatefulSetStatus
from kubewright.apis.core.v1 import PersistentVolumeClaim, Pod
from kubewright.client._client import Client
from kubewright.controllers import Context, Controller, Result, controller
from kubewright_controlplane.common import pods
from kubewright_controlplane.common.selection import SELECTOR, by_selector
from kubewright_controlplane.controllers.claims import Claims, orphans
from kubewright_controlplane.controllers.history import HASH, REVISION_HASH, History, Revisions, Snapshot, template_of
from kubewright_controlplane.controllers.podcontrol import Notes, create_pods, delete_pods
from kubewright_controlplane.controllers.statefulset import identity, retention
from kubewright_controlplane.controllers.statefulset.plan import Members, Plan, Step, is_available, partition_of


class StatefulSetReconciler:
    """Creates, replaces and deletes the Pods of a StatefulSet in order."""

    def __init__(self, live: Client, clock: Clock) -> None:
        self._claims = Claims(live)
        self._history = History(live)
        self._clock = clock

    async def reconcile(self, ctx: Context[StatefulSet]) -> Result | None:
        stateful_set = ctx.object
        past = await self._history.of(ctx, _snapshot(stateful_set))
        current = past.named(stateful_set.status.current_revision) or past.newest
        children = await self._claims.of(ctx, Pod, stateful_set.spec.selector)
        children = [pod for pod in children if identity.ordinal_of(stateful_set, pod) is not None]
        members = Members.of(stateful_set, children)
        now = self._clock.now()
        for ordinal, pod in members.places.items():
            if pod is not None and (pod.status.phase or "Pending") == "Pending":
                await _ensure_claims(ctx, ordinal)
        await retention.settle(ctx, members)
        step = Plan(stateful_set, members, past.newest.metadata.name, now).next()
        try:
            made = await self._take(ctx, step, current, past.newest)
        finally:
            gone = {pod.metadata.uid for pod in step.delete}
            left = [pod for pod in children if pod.metadata.uid not in gone]
            await ctx.update_status(_status(stateful_set, children, left, current, past, now))
        if not made and not step.delete:
            live = {pod.metadata.labels.get(REVISION_HASH, "") for pod in children} | {current.metadata.name}
            await self._history.forget(ctx, past, live, stateful_set.spec.revision_history_limit)
        return _until_available(stateful_set, children, now)

    async def _take(
        self, ctx: Context[StatefulSet], step: Step, current: ControllerRevision, newest: ControllerRevision
    ) -> list[Pod]:
        wanted: list[Pod] = []
        for ordinal in step.create:
            await _ensure_claims(ctx, ordinal)
            revision = current if _keeps_current(ctx.object, ordinal) else newest
            wanted.append(identity.build_pod(ctx.object, template_of(revision), revision.metadata.name, ordinal))
        notes = _notes(ctx.object)
        await delete_pods(ctx, step.delete, notes)
        return await create_pods(ctx, wanted, notes)


def _notes(stateful_set: StatefulSet) -> Notes:
    where = f"Pod {{pod}} in StatefulSet {stateful_set.metadata.name}"
    return Notes(
        created=f"Create {where} successful",
        deleted=f"Delete {where} successful",
        failed=f"Create {where} failed error: {{error}}",
    )


def _snapshot(stateful_set: StatefulSet) -> Snapshot:
    return Snapshot(
        stateful_set.spec.template,
        stateful_set.spec.selector,
        stateful_set.metadata.annotations,
        stateful_set.status.collision_count or 0,
        HASH,
    )


def _keeps_current(stateful_set: StatefulSet, ordinal: int) -> bool:
    """Return whether a new Pod gets the old revision, as it is below the partition."""
    return ordinal < identity.first_ordinal(stateful_set) + partition_of(stateful_set)


async def _ensure_claims(ctx: Context[StatefulSet], ordinal: int) -> None:
    for claim in identity.build_claims(ctx.object, ordinal):
        if await ctx.get_or_none(PersistentVolumeClaim, claim.metadata.name) is None:
            made = await ctx.create(claim)
            note = f"Create Claim {made.metadata.name} Pod {ctx.object.metadata.name}-{ordinal} in StatefulSet "
            note += f"{ctx.object.metadata.name} success"
            ctx.events.normal(ctx.object, "SuccessfulCreate", note, action="Create")


def _status(
    stateful_set: StatefulSet,
    children: Sequence[Pod],
    staying: Sequence[Pod],
    current: ControllerRevision,
    past: Revisions,
    now: datetime,
) -> StatefulSetStatus:
    """Return the status. An update is complete when all Pods have the newest revision and are ready."""
    ready = sum(pod.status.phase == "Running" and pods.is_ready(pod) for pod in children)
    live = [pod for pod in staying if pod.metadata.deletion_timestamp is None]
    newest = past.newest.metadata.name
    of_newest = sum(pod.metadata.labels.get(REVISION_HASH) == newest for pod in live)
    of_current = sum(pod.metadata.labels.get(REVISION_HASH) == current.metadata.name for pod in live)
    updated = of_newest == len(children) == ready == len(identity.ordinals(stateful_set))
    strategy = stateful_set.spec.update_strategy
    rolls = strategy is None or strategy.type == "RollingUpdate"
    through = rolls and updated
    return StatefulSetStatus(
        observed_generation=stateful_set.metadata.generation,
        replicas=len(children),
        ready_replicas=ready or None,
        available_replicas=sum(is_available(stateful_set, pod, now) for pod in children),
        current_replicas=(of_newest if through else of_current) or None,
        updated_replicas=of_newest or None,
        current_revision=newest if through else current.metadata.name,
        update_revision=newest,
        collision_count=past.collisions,
        conditions=stateful_set.status.conditions,
    )


def _until_available(stateful_set: StatefulSet, children: Sequence[Pod], now: datetime) -> Result | None:
    delay = stateful_set.spec.min_ready_seconds or 0
    moments = [pods.available_at(pod, delay) for pod in children]
    coming = [moment for moment in moments if moment is not None and moment > now]
    return Result(requeue_after=min(coming) - now + timedelta(milliseconds=10)) if delay and coming else None


def statefulset_controller(live: Client, clock: Clock) -> Controller[StatefulSet]:
    """Return the controller `statefulset-controller`. `live` reads from the server."""
    declare = controller(
        StatefulSet,
        name="statefulset-controller",
        owns=[Pod, ControllerRevision],
        watches=[orphans(Pod)],
        cached=[PersistentVolumeClaim],
        writes=[PersistentVolumeClaim],
        indexers={SELECTOR: by_selector},
        namespace_ending="stop",
        workers=5,
    )
    return declare(StatefulSetReconciler(live, clock))
