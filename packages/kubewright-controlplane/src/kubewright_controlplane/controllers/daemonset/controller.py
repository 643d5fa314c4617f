"""The reconciler of DaemonSets. Follows kubernetes/pkg/controller/daemon."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from kubewright._runtime.clock import Clock
from kubewright.apis.apps.v1 import ControllerRevision, DaemonSet, DaemonSetStatus
from kubewright.apis.core.v1 import Node, Pod
from kubewright.cache._store import Lister
from kubewright.client._client import Client
from kubewright.controllers import Context, Controller, Request, Result, Watch, controller
from kubewright_controlplane.common import pods
from kubewright_controlplane.common.selection import SELECTOR, by_selector
from kubewright_controlplane.controllers.claims import Claims, orphans
from kubewright_controlplane.controllers.daemonset import placing
from kubewright_controlplane.controllers.daemonset.rollout import Plan
from kubewright_controlplane.controllers.history import REVISION_HASH, History, Revisions, Snapshot, hash_of
from kubewright_controlplane.controllers.podcontrol import create_pods, delete_pods


class DaemonSetReconciler:
    """Keeps a Pod of a DaemonSet on each eligible node."""

    def __init__(self, live: Client, clock: Clock) -> None:
        self._claims = Claims(live)
        self._history = History(live)
        self._clock = clock

    async def reconcile(self, ctx: Context[DaemonSet]) -> Result | None:
        daemon_set = ctx.object
        revisions = await self._history.of(ctx, _snapshot(daemon_set))
        children = await self._claims.of(ctx, Pod, daemon_set.spec.selector)
        by_node: dict[str, list[Pod]] = {}
        for pod in children:
            by_node.setdefault(placing.node_of(pod), []).append(pod)
        plan = Plan(daemon_set, list(await ctx.list(Node)), hash_of(revisions.newest), self._clock.now())
        step = plan.next(by_node)
        for pod in step.delete:
            _report_ended(ctx, pod)
        try:
            await delete_pods(ctx, step.delete)
            hashed = hash_of(revisions.newest)
            await create_pods(ctx, [placing.build_pod(daemon_set, hashed, node) for node in step.create])
        finally:
            await ctx.update_status(_status(daemon_set, plan, by_node, revisions))
        if not step.create and not step.delete:
            live = {pod.metadata.labels.get(REVISION_HASH, "") for pod in children}
            kept = {each.metadata.name for each in revisions.revisions if hash_of(each) in live}
            await self._history.forget(ctx, revisions, kept, daemon_set.spec.revision_history_limit)
        return self._until_available(daemon_set, children)

    def _until_available(self, daemon_set: DaemonSet, children: Sequence[Pod]) -> Result | None:
        delay, now = daemon_set.spec.min_ready_seconds or 0, self._clock.now()
        moments = [pods.available_at(pod, delay) for pod in children]
        coming = [moment for moment in moments if moment is not None and moment > now]
        return Result(requeue_after=min(coming) - now + timedelta(milliseconds=10)) if delay and coming else None


def _snapshot(daemon_set: DaemonSet) -> Snapshot:
    return Snapshot(
        daemon_set.spec.template,
        daemon_set.spec.selector,
        daemon_set.metadata.annotations,
        daemon_set.status.collision_count or 0,
        REVISION_HASH,
    )


def _status(
    daemon_set: DaemonSet, plan: Plan, by_node: Mapping[str, Sequence[Pod]], revisions: Revisions
) -> DaemonSetStatus:
    """Return the counts of nodes, by the oldest Pod on each."""
    oldest = {
        node: min(present, key=lambda pod: str(pod.metadata.creation_timestamp)) for node, present in by_node.items()
    }
    wanted = set(plan.wanted)
    placed = [oldest[node] for node in plan.wanted if node in oldest]
    available = sum(plan.is_available(pod) for pod in placed)
    return DaemonSetStatus(
        observed_generation=daemon_set.metadata.generation,
        desired_number_scheduled=len(wanted),
        current_number_scheduled=len(placed),
        number_misscheduled=sum(node not in wanted for node in by_node),
        number_ready=sum(pods.is_ready(pod) for pod in placed),
        updated_number_scheduled=sum(plan.is_new(pod) for pod in placed) or None,
        number_available=available or None,
        number_unavailable=(len(wanted) - available) or None,
        collision_count=revisions.collisions or None,
        conditions=daemon_set.status.conditions,
    )


def _report_ended(ctx: Context[DaemonSet], pod: Pod) -> None:
    """Record why a Pod that has ended is deleted."""
    where = f"daemon pod {pod.metadata.namespace}/{pod.metadata.name} on node {placing.node_of(pod)}, will try to"
    if pod.status.phase == "Failed":
        ctx.events.warning(ctx.object, "FailedDaemonPod", f"Found failed {where} kill it", action="Delete")
    elif pod.status.phase == "Succeeded":
        ctx.events.normal(ctx.object, "SucceededDaemonPod", f"Found succeeded {where} delete it", action="Delete")


def _every_set(_: Node, daemon_sets: Lister[DaemonSet]) -> Iterable[Request]:
    return [entry.key for entry in daemon_sets.entries()]


def daemonset_controller(live: Client, clock: Clock) -> Controller[DaemonSet]:
    """Return the controller `daemonset-controller`. `live` reads from the server."""
    declare = controller(
        DaemonSet,
        name="daemonset-controller",
        owns=[Pod, ControllerRevision],
        watches=[orphans(Pod), Watch.mapped(Node, _every_set)],
        indexers={SELECTOR: by_selector},
        namespace_ending="stop",
        workers=2,
    )
    return declare(DaemonSetReconciler(live, clock))
