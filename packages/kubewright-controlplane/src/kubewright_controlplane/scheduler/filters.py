"""The nodes that a Pod can run on, and why it cannot run on the others.

The checks have the order and the words of the real scheduler. The first that fails decides.

Follows kubernetes/pkg/scheduler/framework/plugins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from kubewright.apis.core.v1 import Pod
from kubewright.controllers import Request
from kubewright_controlplane.common import affinity, taints
from kubewright_controlplane.scheduler.cluster import NodeInfo
from kubewright_controlplane.scheduler.podinfo import PodInfo
from kubewright_controlplane.scheduler.topology import Namespaces, Neighbors, Spread
from kubewright_controlplane.scheduler.volumes import VolumeCheck


class Refusal(NamedTuple):
    """Why a Pod cannot run on a node."""

    reasons: tuple[str, ...]
    resolvable: bool = False
    """Without some of the Pods on the node, it could."""


class View(NamedTuple):
    """What a Pod is scheduled by: everything else that exists."""

    nodes: Sequence[NodeInfo]
    repelling: Sequence[PodInfo]
    nominated: Sequence[PodInfo]
    """Waiting Pods for which room is made, on the node in `PodInfo.node`."""
    namespaces: Namespaces


class Filter:
    """Checks nodes for one Pod."""

    def __init__(
        self, pod: Pod, info: PodInfo, view: View, volumes: VolumeCheck, without: Collection[Request] = ()
    ) -> None:
        """Pods in `without` do not count: they would be preempted."""
        self._pod, self._info, self._volumes, self._view = pod, info, volumes, view
        self._without = without
        self._neighbors = Neighbors(info, view.nodes, view.repelling, view.namespaces, without)
        self._spread = Spread(pod, view.nodes, "DoNotSchedule", without)
        self._only = only_nodes(pod)

    def excluding(self, without: Collection[Request]) -> Filter:
        """Return a filter for which these Pods do not exist."""
        return Filter(self._pod, self._info, self._view, self._volumes, without)

    def refusal(self, info: NodeInfo) -> Refusal | None:
        """Return why the node is not eligible; None if it is."""
        return self._by_node(info) or self._by_room(info) or self._by_pods(info)

    def _by_node(self, info: NodeInfo) -> Refusal | None:
        node, pod = info.node, self._pod
        if self._only is not None and info.name not in self._only:
            return Refusal(("node(s) didn't satisfy plugin(s) [NodeAffinity]",))
        if node.spec.unschedulable and not taints.tolerated(taints.UNSCHEDULABLE, pod.spec.tolerations):
            return Refusal(("node(s) were unschedulable",))
        if taints.untolerated(node, pod.spec.tolerations, "NoSchedule", "NoExecute") is not None:
            return Refusal(("node(s) had untolerated taint(s)",))
        if not affinity.matches(pod, node):
            return Refusal(("node(s) didn't match Pod's node affinity/selector",))
        return None

    def _by_room(self, info: NodeInfo) -> Refusal | None:
        gone = [info.pods[key] for key in self._without if key in info.pods]
        more = [
            each
            for each in self._view.nominated
            if each.node == info.name and each.key != self._info.key and each.priority >= self._info.priority
        ]
        if self._info.ports and self._is_port_taken(info, more):
            return Refusal(("node(s) didn't have free ports for the requested pod ports",), resolvable=True)
        reasons: list[str] = []
        resolvable = True
        if len(info.pods) - len(gone) + len(more) + 1 > info.allocatable.get("pods", 0):
            reasons.append("Too many pods")
        for name in sorted(self._info.requests, key=_order):
            wanted, capacity = self._info.requests[name], info.allocatable.get(name, 0)
            used = info.requested[name] + _sum(name, more) - _sum(name, gone)
            if wanted and wanted > capacity - used:
                reasons.append(f"Insufficient {name}")
                resolvable = resolvable and wanted <= capacity
        if reasons:
            return Refusal(tuple(reasons), resolvable)
        volume = self._volumes.refusal(info.node)
        return Refusal((volume,)) if volume is not None else None

    def _is_port_taken(self, info: NodeInfo, more: Iterable[PodInfo]) -> bool:
        others = [each for each in info.pods.values() if each.key not in self._without]
        taken = [port for other in (*others, *more) for port in other.ports]
        return any(port.conflicts(other) for port in self._info.ports for other in taken)

    def _by_pods(self, info: NodeInfo) -> Refusal | None:
        labels = info.node.metadata.labels
        if self._spread.constraints:
            uneven = "node(s) didn't match pod topology spread constraints"
            if self._spread.lacks_label(labels):
                return Refusal((f"{uneven} (missing required label)",))
            if self._spread.is_too_uneven(labels):
                return Refusal((uneven,), resolvable=True)
        if not self._neighbors.attracts(labels):
            return Refusal(("node(s) didn't match pod affinity rules",))
        if self._neighbors.repels(labels):
            return Refusal(("node(s) didn't match pod anti-affinity rules",), resolvable=True)
        if self._neighbors.is_repelled(labels):
            return Refusal(("node(s) didn't satisfy existing pods anti-affinity rules",), resolvable=True)
        return None


def only_nodes(pod: Pod) -> set[str] | None:
    """Return the only nodes that required node affinity names; None if it names none."""
    required = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    selector = required.required_during_scheduling_ignored_during_execution if required else None
    found: set[str] = set()
    for term in selector.node_selector_terms if selector else ():
        named = [set(each.values) for each in term.match_fields if (each.key, each.operator) == _BY_NAME]
        if not named:
            return None
        found |= set.intersection(*named)
    return found if selector else None


_BY_NAME = ("metadata.name", "In")
_FIRST = {"cpu": 0, "memory": 1, "ephemeral-storage": 2}


def _order(resource: str) -> tuple[int, str]:
    return _FIRST.get(resource, len(_FIRST)), resource


def _sum(resource: str, pods: Iterable[PodInfo]) -> int:
    return sum(each.requests.get(resource, 0) for each in pods)
