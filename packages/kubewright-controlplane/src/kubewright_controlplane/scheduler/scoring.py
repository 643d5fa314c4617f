"""Which of the eligible nodes a Pod prefers.

Preferences have the weights of the real scheduler: taints 3, node affinity, Pod affinity and topology spread 2 each,
free CPU and memory 1. Among equals, the node with the fewest Pods is chosen.

Follows kubernetes/pkg/scheduler/framework/plugins.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.apis.core.v1 import Pod
from kubewright_controlplane.common import affinity, taints
from kubewright_controlplane.scheduler.cluster import NodeInfo
from kubewright_controlplane.scheduler.podinfo import PodInfo, Term
from kubewright_controlplane.scheduler.topology import Namespaces, Spread

_MOST = 100.0


def best(pod: Pod, info: PodInfo, fitting: Sequence[NodeInfo], namespaces: Namespaces) -> NodeInfo:
    """Return the node that the Pod prefers."""
    if len(fitting) == 1:
        return fitting[0]
    total = [_free(info, node) for node in fitting]
    _add(total, 3, _normalized([-float(_dislikes(pod, node)) for node in fitting]))
    preferred = pod.spec.affinity
    if preferred is not None and preferred.node_affinity is not None:
        _add(total, 2, _normalized([float(_likes(pod, node)) for node in fitting]))
    if preferred is not None and (preferred.pod_affinity is not None or preferred.pod_anti_affinity is not None):
        _add(total, 2, _normalized([float(each) for each in _neighborly(pod, fitting, namespaces)]))
    if any(each.when_unsatisfiable == "ScheduleAnyway" for each in pod.spec.topology_spread_constraints):
        _add(total, 2, _normalized([-float(each) for each in _crowding(pod, fitting)]))
    ranks = [(-round(score, 6), len(node.pods), node.name) for score, node in zip(total, fitting, strict=True)]
    return fitting[ranks.index(min(ranks))]


def _add(total: list[float], weight: int, scores: Sequence[float]) -> None:
    for index, score in enumerate(scores):
        total[index] += weight * score


def _normalized(scores: Sequence[float]) -> list[float]:
    """Return scores from 0 to 100. Equal scores are all 0."""
    low, high = min(scores), max(scores)
    return [0.0 if high == low else (score - low) * _MOST / (high - low) for score in scores]


def _free(pod: PodInfo, node: NodeInfo) -> float:
    """Return the mean share of CPU and memory that stays free."""
    shares: list[float] = []
    for name in ("cpu", "memory"):
        capacity = node.allocatable.get(name, 0)
        if capacity:
            shares.append(max(0, capacity - node.requested[name] - pod.requests.get(name, 0)) / capacity)
    return _MOST * sum(shares) / len(shares) if shares else 0.0


def _dislikes(pod: Pod, node: NodeInfo) -> int:
    """Return the number of taints that the Pod should avoid."""
    avoided = (each for each in node.node.spec.taints if each.effect == "PreferNoSchedule")
    return sum(not taints.tolerated(each, pod.spec.tolerations) for each in avoided)


def _likes(pod: Pod, node: NodeInfo) -> int:
    """Return the weights of the preferred terms of node affinity that match."""
    near = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    terms = near.preferred_during_scheduling_ignored_during_execution if near else ()
    return sum(each.weight for each in terms if affinity.term_matches(each.preference, node.node))


def _neighborly(pod: Pod, fitting: Sequence[NodeInfo], namespaces: Namespaces) -> list[int]:
    """Return the weights of the preferred terms of Pod affinity, for each Pod that is near."""
    near = pod.spec.affinity.pod_affinity if pod.spec.affinity else None
    far = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
    weighted = [
        (sign * each.weight, Term.of(each.pod_affinity_term, pod.metadata.namespace))
        for sign, part in ((1, near), (-1, far))
        for each in (part.preferred_during_scheduling_ignored_during_execution if part else ())
    ]
    scores = [0] * len(fitting)
    for weight, term in weighted:
        counts: dict[str, int] = {}
        for node in fitting:
            value = node.node.metadata.labels.get(term.topology_key)
            if value is not None:
                found = sum(term.matches(each, namespaces) for each in node.pods.values())
                counts[value] = counts.get(value, 0) + found
        for index, node in enumerate(fitting):
            scores[index] += weight * counts.get(node.node.metadata.labels.get(term.topology_key, ""), 0)
    return scores


def _crowding(pod: Pod, fitting: Sequence[NodeInfo]) -> list[int]:
    """Return how many Pods of the spread constraints are in the domains of each node."""
    spread = Spread(pod, fitting, "ScheduleAnyway", ())
    return [
        sum(
            counts.get(node.node.metadata.labels.get(constraint.key, ""), 0)
            for constraint, counts in zip(spread.constraints, spread.counts, strict=True)
        )
        for node in fitting
    ]
