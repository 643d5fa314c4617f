"""Preemption: the Pods of lower priority that make room for a Pod.

On each node, as few Pods as possible are chosen, and those of a disruption budget last. Among the nodes, the one is
chosen whose victims violate the fewest budgets, then have the lowest priorities, are the fewest, and started last.

Follows kubernetes/pkg/scheduler/framework/preemption and its plugin defaultpreemption.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from kubewright.apis.core.v1 import Pod
from kubewright_controlplane.scheduler.cluster import NodeInfo
from kubewright_controlplane.scheduler.diagnosis import diagnosis
from kubewright_controlplane.scheduler.filters import Filter, Refusal
from kubewright_controlplane.scheduler.podinfo import PodInfo

_NO_VICTIMS = "No preemption victims found for incoming pod"
_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_LATEST = datetime.max.replace(tzinfo=UTC)


class Budget(NamedTuple):
    """A disruption budget: how many more of its Pods may be disrupted."""

    allowed: int
    pods: frozenset[object]
    """The keys of its Pods that are not disrupted yet."""


class Victims(NamedTuple):
    """The Pods to delete on a node, most important first."""

    node: NodeInfo
    pods: Sequence[PodInfo]
    violations: int


def why_not_eligible(pod: Pod, info: PodInfo, nodes: Sequence[NodeInfo], refusals: Mapping[str, Refusal]) -> str:
    """Return why the Pod may not preempt others; empty if it may."""
    if pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    nominated = pod.status.nominated_node_name
    refusal = refusals.get(nominated or "")
    if not nominated or (refusal is not None and not refusal.resolvable):
        return ""
    for node in nodes:
        if node.name == nominated and any(
            each.priority < info.priority and each.terminating and each.preempted for each in node.pods.values()
        ):
            return "not eligible due to a terminating pod on the nominated node."
    return ""


def choose(
    info: PodInfo,
    nodes: Sequence[NodeInfo],
    refusals: Mapping[str, Refusal],
    check: Filter,
    budgets: Sequence[Budget],
) -> Victims | str:
    """Return the victims on the best node, or why there are none."""
    candidates: list[Victims] = []
    reasons: list[Refusal] = []
    for node in nodes:
        refusal = refusals[node.name]
        found = _victims_on(node, info, check, budgets) if refusal.resolvable else Refusal((_NOT_HELPFUL,))
        if isinstance(found, Victims):
            candidates.append(found)
        else:
            reasons.append(found)
    return min(candidates, key=_cost) if candidates else diagnosis(len(nodes), reasons)


def _victims_on(node: NodeInfo, info: PodInfo, check: Filter, budgets: Sequence[Budget]) -> Victims | Refusal:
    lower = [each for each in node.pods.values() if each.priority < info.priority]
    if not lower:
        return Refusal((_NO_VICTIMS,))
    gone = {each.key for each in lower}
    refusal = check.excluding(gone).refusal(node)
    if refusal is not None:
        return refusal
    lower.sort(key=_importance)
    protected = _protected(lower, budgets)
    violations = 0
    for each in sorted(lower, key=lambda each: each.key not in protected):
        if check.excluding(gone - {each.key}).refusal(node) is None:
            gone.discard(each.key)
        else:
            violations += each.key in protected
    return Victims(node, [each for each in lower if each.key in gone], violations)


def _protected(pods: Sequence[PodInfo], budgets: Sequence[Budget]) -> set[object]:
    """Return the Pods whose deletion would violate a budget, if the more important ones are deleted first."""
    left = [each.allowed for each in budgets]
    found: set[object] = set()
    for pod in pods:
        for index, budget in enumerate(budgets):
            if pod.key in budget.pods:
                left[index] -= 1
                if left[index] < 0:
                    found.add(pod.key)
    return found


def _importance(pod: PodInfo) -> tuple[int, datetime]:
    return -pod.priority, pod.started or _LATEST


def _cost(victims: Victims) -> tuple[float, ...]:
    highest = max(each.priority for each in victims.pods)
    starts = [each.started.timestamp() for each in victims.pods if each.priority == highest and each.started]
    return (
        victims.violations,
        highest,
        sum(each.priority + 2**31 for each in victims.pods),
        len(victims.pods),
        -min(starts, default=0.0),
    )
