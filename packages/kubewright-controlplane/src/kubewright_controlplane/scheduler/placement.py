"""The number of Pods on each node, counted from events, so that scheduling a Pod does not list all Pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kubewright.apis.core.v1 import Pod
from kubewright.controllers import Request
from kubewright_controlplane.common.pods import is_finished


class Placement:
    """The node of each Pod that is not finished."""

    def __init__(self) -> None:
        self._node_of: dict[Request, str] = {}
        self._counts: Counter[str] = Counter()
        self.seeded = False
        """The Pods that existed before are counted."""

    def seed(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self.see(pod)
        self.seeded = True

    def see(self, pod: Pod) -> None:
        """Count the Pod on its current node."""
        node = None if is_finished(pod) else pod.spec.node_name
        self.put(Request(pod.metadata.namespace, pod.metadata.name), node or "")

    def put(self, pod: Request, node: str) -> None:
        """Set the node of a Pod; "" for none."""
        before = self._node_of.pop(pod, "")
        if before:
            self._counts[before] -= 1
        if node:
            self._node_of[pod] = node
            self._counts[node] += 1

    def on(self, node: str) -> int:
        return self._counts[node]
