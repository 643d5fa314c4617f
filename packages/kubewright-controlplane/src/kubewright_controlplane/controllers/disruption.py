"""The disruption controller: counts how many Pods of each PodDisruptionBudget may be evicted.

The API server takes evictions from `status.disruptionsAllowed`. The status is written only if nobody, such as an
eviction, changed the budget since it was read. If the count fails, no disruption is allowed.

Follows kubernetes/pkg/controller/disruption.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from kubewright._runtime.clock import Clock
from kubewright.apis.apps.v1 import Deployment, ReplicaSet, StatefulSet
from kubewright.apis.core.v1 import Pod, ReplicationController
from kubewright.apis.meta.v1 import Condition, OwnerReference
from kubewright.apis.policy.v1 import PodDisruptionBudget, PodDisruptionBudgetStatus
from kubewright.cache._store import Lister
from kubewright.client._client import Client
from kubewright.client._mapper import RESTMapper
from kubewright.controllers import Context, Controller, Request, Result, Watch, controller
from kubewright.controllers._context import controller_of
from kubewright.machinery.errors import APIError, ConfigError, NotFound
from kubewright_controlplane.common import pods
from kubewright_controlplane.common.conditions import with_condition
from kubewright_controlplane.common.selection import compiled, lister_of, matching
from kubewright_controlplane.controllers.intstr import scaled

DELETION_TIMEOUT: Final = timedelta(minutes=2)
"""How long an evicted Pod counts as disrupted before it is marked as being deleted."""
_ALLOWED: Final = "DisruptionAllowed"
_UNMANAGED: Final = (
    "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, the "
    "status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these "
    'pods please set ".spec.minAvailable" field of the PDB to an integer value.'
)


class CountFailed(Exception):
    """The number of expected Pods is unknown."""


class DisruptionReconciler:
    """Reports the status of a PodDisruptionBudget."""

    def __init__(self, live: Client, clock: Clock) -> None:
        self._scales = _Scales(live)
        self._clock = clock

    async def reconcile(self, ctx: Context[PodDisruptionBudget]) -> Result | None:
        budget, now = ctx.object, self._clock.now()
        selector = budget.spec.selector
        selected = await matching(ctx, Pod, selector) if selector is not None else []
        if not selected:
            ctx.events.normal(budget, "NoPods", "No matching pods found", action="Count")
        _report_pods_of_several(ctx, selected)
        try:
            expected, desired = await self._expected(ctx, selected)
        except (APIError, ConfigError, CountFailed, ValueError) as error:
            note = f"Failed to calculate the number of expected pods: {error}"
            ctx.events.warning(budget, "CalculateExpectedPodCountFailed", note, action="Count")
            await ctx.update_status(_failed(budget, str(error), now), if_unchanged=True)
            return None
        disrupted = self._disrupted(ctx, selected, now)
        healthy = sum(
            pod.metadata.deletion_timestamp is None and pod.metadata.name not in disrupted and pods.is_ready(pod)
            for pod in selected
        )
        await ctx.update_status(_status(budget, healthy, desired, expected, disrupted, now), if_unchanged=True)
        if not disrupted:
            return None
        return Result(requeue_after=max(min(disrupted.values()) + DELETION_TIMEOUT - now, timedelta(seconds=1)))

    async def _expected(self, ctx: Context[PodDisruptionBudget], selected: Sequence[Pod]) -> tuple[int, int]:
        """Return the number of Pods that should exist, and how many must be healthy. Raises CountFailed."""
        spec = ctx.object.spec
        if spec.max_unavailable is not None:
            expected = await self._scale(ctx, selected)
            return expected, max(0, expected - scaled(spec.max_unavailable, expected, round_up=True))
        if isinstance(spec.min_available, str):
            expected = await self._scale(ctx, selected)
            return expected, scaled(spec.min_available, expected, round_up=True)
        return (0, 0) if spec.min_available is None else (len(selected), spec.min_available)

    async def _scale(self, ctx: Context[PodDisruptionBudget], selected: Sequence[Pod]) -> int:
        """Return the sum of the replicas of the Pods' controllers."""
        known: set[str] = set()
        replicas: dict[str, int] = {}
        unmanaged = False
        for pod in selected:
            owner = controller_of(pod)
            if owner is None:
                unmanaged = True
            elif owner.uid not in known:
                found = await self._scales.of(ctx, owner)
                if found is None:
                    raise CountFailed(f'found no controllers for pod "{pod.metadata.name}"')
                known.add(owner.uid)
                replicas[found.uid] = found.replicas
        if unmanaged:
            note = _UNMANAGED.format(selector=_go_text(ctx.object))
            ctx.events.warning(ctx.object, "UnmanagedPods", note, action="Count")
        return sum(replicas.values())

    def _disrupted(
        self, ctx: Context[PodDisruptionBudget], selected: Sequence[Pod], now: datetime
    ) -> dict[str, datetime]:
        """Return the evicted Pods that are about to be deleted."""
        kept: dict[str, datetime] = {}
        for pod in selected:
            since = ctx.object.status.disrupted_pods.get(pod.metadata.name)
            if since is None or pod.metadata.deletion_timestamp is not None:
                continue
            if since + DELETION_TIMEOUT < now:
                note = f"Pod was expected by PDB {pod.metadata.namespace}/{pod.metadata.namespace} to be deleted but "
                ctx.events.warning(pod, "NotDeleted", f"{note}it wasn't", action="Count")
            else:
                kept[pod.metadata.name] = since
        return kept


class _Scale(NamedTuple):
    uid: str
    replicas: int


class _Scales:
    """Finds how many replicas the controller of a Pod requests."""

    def __init__(self, live: Client) -> None:
        self._live = live
        self._mapper = RESTMapper(live)

    async def of(self, ctx: Context[PodDisruptionBudget], owner: OwnerReference) -> _Scale | None:
        """Return the scale of the topmost controller; None if there is none of that uid."""
        group = owner.api_version.rpartition("/")[0]
        if (group, owner.kind) == ("apps", "ReplicaSet"):
            return await self._of_replica_set(ctx, owner)
        if (group, owner.kind) == ("apps", "StatefulSet"):
            return _found(await self._live.get_or_none(StatefulSet, owner.name, namespace=ctx.request.namespace), owner)
        if (group, owner.kind) == ("", "ReplicationController"):
            namespace = ctx.request.namespace
            return _found(await self._live.get_or_none(ReplicationController, owner.name, namespace=namespace), owner)
        return await self._of_other(owner, ctx.request.namespace)

    async def _of_replica_set(self, ctx: Context[PodDisruptionBudget], owner: OwnerReference) -> _Scale | None:
        replica_set = await ctx.get_or_none(ReplicaSet, owner.name)
        above = controller_of(replica_set) if replica_set is not None else None
        if replica_set is None or replica_set.metadata.uid != owner.uid or above is None or above.kind != "Deployment":
            return _found(replica_set, owner)
        return _found(await ctx.get_or_none(Deployment, above.name), above)

    async def _of_other(self, owner: OwnerReference, namespace: str | None) -> _Scale | None:
        from kubewright.apis.autoscaling.v1 import Scale  # few budgets need it

        kind = await self._mapper.kind(owner.api_version, owner.kind)
        api = kind.__api__
        try:
            scale = await self._live.subresource(kind, owner.name, "scale", namespace=namespace).get(Scale)
        except NotFound:
            if "scale" not in api.subresources:
                resource = f"{api.plural}.{api.group}" if api.group else api.plural
                raise CountFailed(f"{resource} does not implement the scale subresource") from None
            return None
        return _Scale(owner.uid, scale.spec.replicas or 0) if scale.metadata.uid == owner.uid else None


def _found(
    present: Deployment | ReplicaSet | StatefulSet | ReplicationController | None, owner: OwnerReference
) -> _Scale | None:
    if present is None or present.metadata.uid != owner.uid:
        return None
    return _Scale(owner.uid, 1 if present.spec.replicas is None else present.spec.replicas)


def _status(
    budget: PodDisruptionBudget,
    healthy: int,
    desired: int,
    expected: int,
    disrupted: dict[str, datetime],
    now: datetime,
) -> PodDisruptionBudgetStatus:
    allowed = max(0, healthy - desired) if expected > 0 else 0
    condition = Condition(
        type=_ALLOWED,
        status="True" if allowed else "False",
        reason="SufficientPods" if allowed else "InsufficientPods",
        message="",
        observed_generation=budget.metadata.generation,
        last_transition_time=now,
    )
    return PodDisruptionBudgetStatus(
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
        disruptions_allowed=allowed,
        disrupted_pods=disrupted,
        observed_generation=budget.metadata.generation,
        conditions=with_condition(budget.status.conditions, condition),
    )


def _failed(budget: PodDisruptionBudget, message: str, now: datetime) -> PodDisruptionBudgetStatus:
    condition = Condition(
        type=_ALLOWED,
        status="False",
        reason="SyncFailed",
        message=message,
        observed_generation=budget.status.observed_generation,
        last_transition_time=now,
    )
    return msgspec.structs.replace(
        budget.status, disruptions_allowed=0, conditions=with_condition(budget.status.conditions, condition)
    )


def _go_text(budget: PodDisruptionBudget) -> str:
    """Return the selector as Go prints it."""
    selector = budget.spec.selector
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.match_labels.items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{each.key},Operator:{each.operator},Values:[{' '.join(each.values)}],}},"
        for each in selector.match_expressions
    )
    listed = f"[]LabelSelectorRequirement{{{expressions}}}"
    return f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:{listed},}}"


def _report_pods_of_several(ctx: Context[PodDisruptionBudget], selected: Iterable[Pod]) -> None:
    """Report each Pod that another budget selects too, for the first of its budgets."""
    budgets = lister_of(ctx, PodDisruptionBudget)
    if len(budgets) < 2:
        return
    for pod in selected:
        names = sorted(each.name for each in _budgets_of(pod, budgets))
        if len(names) > 1 and names[0] == ctx.object.metadata.name:
            note = f'Pod "{pod.metadata.namespace}"/"{pod.metadata.name}" matches multiple PodDisruptionBudgets.  '
            chosen = f'Chose "{names[0]}" arbitrarily.'
            ctx.events.warning(pod, "MultiplePodDisruptionBudgets", note + chosen, action="Count")


def _budgets_of(pod: Pod, budgets: Lister[PodDisruptionBudget]) -> Iterable[Request]:
    """Return the budgets that select a changed Pod."""
    for budget in budgets.list(namespace=pod.metadata.namespace):
        selector = budget.spec.selector
        if selector is not None and compiled(selector).matches(pod.metadata.labels):
            yield Request(budget.metadata.namespace, budget.metadata.name)


def disruption_controller(live: Client, clock: Clock) -> Controller[PodDisruptionBudget]:
    """Return the controller `disruption-controller`. `live` reads scales from the server."""
    declare = controller(
        PodDisruptionBudget,
        name="disruption-controller",
        watches=[Watch.mapped(Pod, _budgets_of)],
        cached=[Deployment, ReplicaSet],
        namespace_ending="stop",
        workers=1,
    )
    return declare(DisruptionReconciler(live, clock))
