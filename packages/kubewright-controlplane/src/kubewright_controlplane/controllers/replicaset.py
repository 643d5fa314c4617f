"""The ReplicaSet controller: keeps the number of Pods that a ReplicaSet requests.

A stale cache does not lead to wrong counts: a read waits for this process's own creates and deletes. The reconciler
also works for ReplicationControllers, as in Kubernetes.

Follows kubernetes/pkg/controller/replicaset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from kubewright._runtime.clock import Clock
from kubewright.apis.apps.v1 import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
from kubewright.apis.core.v1 import Pod, PodTemplateSpec
from kubewright.client._client import Client
from kubewright.controllers import Context, Controller, Result, controller
from kubewright.machinery.errors import APIError
from kubewright.machinery.selectors import Selector
from kubewright.models import Object, Struct
from kubewright_controlplane.common import pods
from kubewright_controlplane.common.selection import SELECTOR, by_selector
from kubewright_controlplane.controllers.claims import Claims, orphans
from kubewright_controlplane.controllers.podcontrol import BURST, create_pods, delete_pods, pod_of

T = TypeVar("T", bound=Object)


class ReplicaSetReconciler(Generic[T]):
    """Creates and deletes Pods of a ReplicaSet, and reports its status."""

    def __init__(
        self,
        live: Client,
        clock: Clock,
        view: Callable[[T], ReplicaSet],
        status_of: Callable[[ReplicaSetStatus], Struct],
    ) -> None:
        """`view` returns an object as a ReplicaSet, and `status_of` the status of a ReplicaSet as that of its kind."""
        self._claims = Claims(live)
        self._clock = clock
        self._view = view
        self._status_of = status_of

    async def reconcile(self, ctx: Context[T]) -> Result | None:
        replica_set = self._view(ctx.object)
        children = await self._claims.of(ctx, Pod, replica_set.spec.selector)
        active = [pod for pod in children if pods.is_active(pod)]
        failure: APIError | None = None
        try:
            active = await self._scale(ctx, replica_set, active)
        except APIError as error:
            if error.namespace_is_ending:
                raise
            failure = error
        status = self._status(replica_set, children, active, failure)
        await ctx.update_status(self._status_of(status))
        if failure is not None:
            raise failure
        return self._requeue_until_available(replica_set, active)

    async def _scale(self, ctx: Context[T], replica_set: ReplicaSet, active: list[Pod]) -> list[Pod]:
        """Create missing Pods or delete surplus ones, at most `BURST`. Return the Pods that are active afterwards."""
        missing = _desired_replicas(replica_set) - len(active)
        if missing > 0:
            template = replica_set.spec.template or PodTemplateSpec()
            return active + await create_pods(ctx, [pod_of(ctx.object, template) for _ in range(min(missing, BURST))])
        if missing < 0:
            surplus = pods.in_order_of_deletion(active, self._clock.now())[: min(-missing, BURST)]
            await delete_pods(ctx, surplus)
            gone = {pod.metadata.uid for pod in surplus}
            return [pod for pod in active if pod.metadata.uid not in gone]
        return active

    def _status(
        self, replica_set: ReplicaSet, children: Sequence[Pod], active: Sequence[Pod], failure: APIError | None
    ) -> ReplicaSetStatus:
        now = self._clock.now()
        delay = replica_set.spec.min_ready_seconds or 0
        template = replica_set.spec.template or PodTemplateSpec()
        labels = Selector.from_dict({"matchLabels": template.metadata.labels})
        return ReplicaSetStatus(
            replicas=len(active),
            fully_labeled_replicas=sum(labels.matches(pod.metadata.labels) for pod in active) or None,
            ready_replicas=sum(pods.is_ready(pod) for pod in active) or None,
            available_replicas=sum(pods.is_available(pod, delay, now) for pod in active) or None,
            terminating_replicas=sum(pods.is_terminating(pod) for pod in children),
            observed_generation=replica_set.metadata.generation,
            conditions=_conditions(replica_set, _desired_replicas(replica_set) - len(active), failure, now),
        )

    def _requeue_until_available(self, replica_set: ReplicaSet, active: Sequence[Pod]) -> Result | None:
        """Return when the next ready Pod becomes available, which causes no event: after `minReadySeconds`."""
        delay = replica_set.spec.min_ready_seconds or 0
        if not delay:
            return None
        now = self._clock.now()
        available_at = (pods.available_at(pod, delay) for pod in active)
        future = [moment for moment in available_at if moment is not None and moment > now]
        # Slightly later, so that the Pod counts as available when the reconcile starts
        return Result(requeue_after=min(future) - now + timedelta(milliseconds=10)) if future else None


def _desired_replicas(replica_set: ReplicaSet) -> int:
    return 1 if replica_set.spec.replicas is None else replica_set.spec.replicas


def _conditions(
    replica_set: ReplicaSet, missing: int, failure: APIError | None, now: datetime
) -> list[ReplicaSetCondition]:
    """Set `ReplicaFailure` while Pods can't be created or deleted, with the first error of the API server."""
    before = next((each for each in replica_set.status.conditions if each.type == "ReplicaFailure"), None)
    others = [each for each in replica_set.status.conditions if each is not before]
    if failure is None:
        return others
    reason = "FailedCreate" if missing > 0 else "FailedDelete"
    failed = ReplicaSetCondition(
        type="ReplicaFailure", status="True", reason=reason, message=str(failure), last_transition_time=now
    )
    return [*others, before if before is not None and before.reason == reason else failed]


def replicaset_controller(live: Client, clock: Clock) -> Controller[ReplicaSet]:
    """Return the controller `replicaset-controller`. `live` reads from the server."""
    declare = controller(
        ReplicaSet,
        name="replicaset-controller",
        owns=[Pod],
        watches=[orphans(Pod)],
        indexers={SELECTOR: by_selector},
        namespace_ending="stop",
        workers=5,
    )
    return declare(ReplicaSetReconciler(live, clock, _itself, _itself))


U = TypeVar("U")


def _itself(value: U) -> U:
    return value
