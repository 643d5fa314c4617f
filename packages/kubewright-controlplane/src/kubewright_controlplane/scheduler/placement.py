"""How many pods each node has, counted from what is seen of each pod, so that no pod is counted by looking at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kubewright.apis.core.v1 import Pod
from kubewright.controllers import Request
from kubewright_controlplane.common.pods import is_finished


class Placement:
    """Where each pod is, as far as it takes up room."""

    def __init__(self) -> None:
        self._node_of: dict[Request, str] = {}
        self._counts: Counter[str] = Counter()
        self.seeded = False
        """What there was before this process began is counted."""

    def seed(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self.see(pod)
        self.seeded = True

    def see(self, pod: Pod) -> None:
        """Count the pod where it is now."""
        node = None if is_finished(pod) else pod.spec.node_name
        self.put(Request(pod.metadata.namespace, pod.metadata.name), node or "")

    def put(self, pod: Request, node: str) -> None:
        """The pod is on `node`, or with "" on none any more."""
        before = self._node_of.pop(pod, "")
        if before:
            self._counts[before] -= 1
        if node:
            self._node_of[pod] = node
            self._counts[node] += 1

    def on(self, node: str) -> int:
        return self._counts[node]
