"""The ReplicaSet controller: as many pods as a ReplicaSet asks for.

Counting is safe against a stale cache: a read waits for this process's own creates and deletes. Pods are created in
batches that double in size, so that a template which the API server refuses costs one request and not hundreds.

Follows kubernetes/pkg/controller/replicaset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from kubewright.apis.apps.v1 import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
from kubewright.apis.core.v1 import Pod, PodTemplateSpec
from kubewright.controller import Context, Controller, Result, controller
from kubewright.controlplane import pods
from kubewright.controlplane.claims import claim, compiled
from kubewright.machinery.clock import Clock
from kubewright.machinery.errors import APIError, NotFound
from kubewright.machinery.selectors import LabelSelector
from kubewright.models import Object
from kubewright.models.meta import ObjectMeta, owner_reference

BURST = 500
"""The most pods created or deleted in one reconcile."""


class ReplicaSetReconciler:
    """Creates and deletes pods of a ReplicaSet, and reports what there is."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def reconcile(self, ctx: Context[ReplicaSet]) -> Result | None:
        replica_set = ctx.object
        children = await claim(ctx, Pod, compiled(replica_set.spec.selector))
        active = [pod for pod in children if pods.is_active(pod)]
        failure: APIError | None = None
        try:
            active = await self._fit(ctx, active)
        except APIError as error:
            failure = error
        status = self._status(replica_set, children, active, failure)
        await ctx.update_status(status)
        if failure is not None:
            raise failure
        return self._until_available(replica_set, active)

    async def _fit(self, ctx: Context[ReplicaSet], active: list[Pod]) -> list[Pod]:
        missing = _wanted(ctx.object) - len(active)
        if missing > 0:
            return active + await create_pods(ctx, ctx.object.spec.template or PodTemplateSpec(), min(missing, BURST))
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
        labels = LabelSelector.from_dict({"matchLabels": template.metadata.labels})
        return ReplicaSetStatus(
            replicas=len(active),
            fully_labeled_replicas=sum(labels.matches(pod.metadata.labels) for pod in active) or None,
            ready_replicas=sum(pods.is_ready(pod) for pod in active) or None,
            available_replicas=sum(pods.is_available(pod, delay, now) for pod in active) or None,
            terminating_replicas=sum(_is_terminating(pod) for pod in children),
            observed_generation=replica_set.metadata.generation,
            conditions=_conditions(replica_set, failure, now),
        )

    def _until_available(self, replica_set: ReplicaSet, active: Sequence[Pod]) -> Result | None:
        """Pods that are ready and not yet available become so by time alone: come back then."""
        delay = replica_set.spec.min_ready_seconds or 0
        if not delay:
            return None
        now = self._clock.now()
        moments = (pods.available_at(pod, delay) for pod in active)
        coming = [moment for moment in moments if moment is not None and moment > now]
        return Result(requeue_after=min(coming) - now + timedelta(milliseconds=10)) if coming else None


async def create_pods(ctx: Context[ReplicaSet], template: PodTemplateSpec, count: int) -> list[Pod]:
    """Create `count` pods, in batches of 1, 2, 4, ... Raises the first failure, after its batch is through."""
    made: list[Pod] = []
    batch = 1
    while len(made) < count:
        size = min(batch, count - len(made))
        tasks = (ctx.create(pod_of(ctx.object, template)) for _ in range(size))
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Pod):
                made.append(outcome)
                _tell(ctx, outcome, "SuccessfulCreate", "Created")
        failures = [each for each in outcomes if isinstance(each, BaseException)]
        if failures:
            ctx.events.warning(ctx.object, "FailedCreate", f"Error creating: {failures[0]}", action="Create")
            raise failures[0]
        batch *= 2
    return made


def pod_of(owner: Object, template: PodTemplateSpec) -> Pod:
    """A pod as the template says, owned by `owner`, under a name that the API server completes."""
    return Pod(
        metadata=ObjectMeta(
            generate_name=f"{owner.metadata.name}-",
            namespace=owner.metadata.namespace,
            labels=template.metadata.labels,
            annotations=template.metadata.annotations,
            finalizers=template.metadata.finalizers,
            owner_references=[owner_reference(owner)],
        ),
        spec=template.spec,
    )


async def delete_pods(ctx: Context[ReplicaSet], surplus: Sequence[Pod]) -> None:
    async def delete(pod: Pod) -> None:
        try:
            await ctx.delete(pod)
        except NotFound:
            return
        _tell(ctx, pod, "SuccessfulDelete", "Deleted")

    await asyncio.gather(*(delete(pod) for pod in surplus))


def _tell(ctx: Context[ReplicaSet], pod: Pod, reason: str, done: str) -> None:
    ctx.events.normal(ctx.object, reason, f"{done} pod: {pod.metadata.name}", action=reason)


def _wanted(replica_set: ReplicaSet) -> int:
    return 1 if replica_set.spec.replicas is None else replica_set.spec.replicas


def _is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None and pod.status.phase not in ("Succeeded", "Failed")


def _conditions(replica_set: ReplicaSet, failure: APIError | None, now: datetime) -> list[ReplicaSetCondition]:
    """`ReplicaFailure` while pods can't be created, with the API server's reason."""
    others = [each for each in replica_set.status.conditions if each.type != "ReplicaFailure"]
    if failure is None:
        return others
    before = next((each for each in replica_set.status.conditions if each.type == "ReplicaFailure"), None)
    moved = before.last_transition_time if before is not None else now
    message = str(failure)
    failed = ReplicaSetCondition(
        type="ReplicaFailure", status="True", reason="FailedCreate", message=message, last_transition_time=moved
    )
    return [*others, failed]


def replicaset_controller(clock: Clock) -> Controller[ReplicaSet]:
    """The controller named `replicaset-controller`."""
    declare = controller(ReplicaSet, name="replicaset-controller", owns=[Pod], workers=5)
    return declare(ReplicaSetReconciler(clock))
