"""The admission of Pods to their node: a Pod that does not fit is rejected, and fails.

The scheduler has checked the Pods that it binds. So only Pods whose creator has chosen the node are checked here.

Follows k8s.io/kubernetes pkg/kubelet/lifecycle/predicate.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kubewright.apis.core.v1 import Node, Pod
from kubewright_controlplane.common import affinity, taints
from kubewright_controlplane.common.podresources import amount, host_ports, requests_of
from kubewright_controlplane.common.pods import condition, is_finished

_FIRST: Final = {"cpu": 0, "memory": 1, "ephemeral-storage": 2}
"""The order in which resources are reported; then follow the others by name."""


class Rejection(NamedTuple):
    """Why a Pod is rejected, as its status reports it."""

    reason: str
    message: str


def needs_admission(pod: Pod) -> bool:
    """Return whether the creator of a Pod has chosen its node, and the kubelet has not seen the Pod before."""
    return (
        pod.status.start_time is None
        and condition(pod, "PodScheduled") is None
        and pod.metadata.deletion_timestamp is None
        and not is_finished(pod)
    )


def rejection(pod: Pod, node: Node, others: Sequence[Pod]) -> Rejection | None:
    """Return why the node rejects a Pod next to `others`, the Pods that it has admitted; None if it does not."""
    return next(_rejections(pod, node, others), None)


def _rejections(pod: Pod, node: Node, others: Sequence[Pod]) -> Iterator[Rejection]:
    if node.status.allocatable:
        yield from _resources(pod, node, others)
    if not affinity.matches(pod, node):
        yield _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    taken = [port for other in others for port in host_ports(other)]
    if any(port.conflicts(other) for port in host_ports(pod) for other in taken):
        yield _predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    if taints.untolerated(node, pod.spec.tolerations, "NoExecute") is not None:
        yield _predicate("TaintToleration", "node(s) had untolerated taint(s)")


def _predicate(name: str, why: str) -> Rejection:
    return Rejection(name, f"Predicate {name} failed: {why}")


def _resources(pod: Pod, node: Node, others: Sequence[Pod]) -> Iterator[Rejection]:
    """Yield the resources that the node lacks. Resources that it does not know are not checked."""
    capacity = {name: amount(name, text) for name, text in node.status.allocatable.items()}
    if len(others) + 1 > capacity.get("pods", 0):
        yield _insufficient("pods", 1, len(others), capacity.get("pods", 0))
    requests = requests_of(pod)
    for name in sorted(requests.keys() & capacity.keys(), key=lambda name: (_FIRST.get(name, len(_FIRST)), name)):
        used = _sum(name, others)
        if requests[name] and requests[name] > capacity[name] - used:
            yield _insufficient(name, requests[name], used, capacity[name])


def _insufficient(name: str, requested: int, used: int, capacity: int) -> Rejection:
    numbers = f"requested: {requested}, used: {used}, capacity: {capacity}"
    return Rejection(f"OutOf{name}", f"Node didn't have enough resource: {name}, {numbers}")


def _sum(resource: str, pods: Iterable[Pod]) -> int:
    return sum(requests_of(each).get(resource, 0) for each in pods)
