"""The nodes and the Pods on them, as the scheduler sees them.

Pods are counted from events, so that scheduling a Pod lists no other Pods. A Pod that was bound counts at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kubewright.apis.core.v1 import Node, Pod
from kubewright.cache._entry import Entry
from kubewright.controllers import Request
from kubewright_controlplane.common.podresources import amount
from kubewright_controlplane.common.pods import is_finished
from kubewright_controlplane.scheduler.podinfo import PodInfo


class NodeInfo:
    """A node, and what its Pods have taken."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.node = Node()
        self.version = 0
        self.allocatable: dict[str, int] = {}
        self.pods: dict[Request, PodInfo] = {}
        self.requested: Counter[str] = Counter()

    def set(self, entry: Entry[Node]) -> None:
        """Set the Node object, if it has changed."""
        if self.version != entry.resource_version:
            self.version, self.node = entry.resource_version, entry.decode()
            self.allocatable = {name: amount(name, text) for name, text in self.node.status.allocatable.items()}

    def add(self, pod: PodInfo) -> None:
        self.pods[pod.key] = pod
        self.requested.update(pod.requests)

    def remove(self, pod: PodInfo) -> None:
        if self.pods.pop(pod.key, None) is not None:
            self.requested.subtract(pod.requests)


class Placement:
    """All nodes, and the Pods on them that are not finished."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInfo] = {}
        """Also nodes that do not exist, if Pods are bound to them."""
        self._pods: dict[Request, PodInfo] = {}
        self._assumed: set[Request] = set()
        """Pods that were bound, and that no event shows on their node yet."""
        self._repelling: set[Request] = set()
        """Pods with required anti-affinity."""

    def see(self, pod: Pod) -> bool:
        """Count the Pod on its current node. Returns whether other Pods may fit now that did not before."""
        key = Request(pod.metadata.namespace, pod.metadata.name)
        if is_finished(pod):
            return self.forget(key)
        if not pod.spec.node_name:
            return False if key in self._assumed else self.forget(key)
        before, now = self._pods.get(key), PodInfo.of(pod)
        self._put(now)
        self._assumed.discard(key)
        return before is not None and (before.labels, before.requests, before.terminating) != (
            now.labels,
            now.requests,
            now.terminating,
        )

    def assume(self, pod: PodInfo) -> None:
        """Count a Pod that was just bound."""
        self._put(pod)
        self._assumed.add(pod.key)

    def is_assumed(self, key: Request) -> bool:
        return key in self._assumed

    def forget(self, key: Request) -> bool:
        """Count a Pod no longer. Returns whether it was counted."""
        self._assumed.discard(key)
        self._repelling.discard(key)
        before = self._pods.pop(key, None)
        if before is not None:
            self.node(before.node).remove(before)
        return before is not None

    def nodes(self, entries: Iterable[Entry[Node]]) -> list[NodeInfo]:
        """Return the nodes that exist, in the order of `entries`."""
        found: list[NodeInfo] = []
        for entry in entries:
            info = self.node(entry.key.name)
            info.set(entry)
            found.append(info)
        return found

    def repelling(self) -> Sequence[PodInfo]:
        """Return the Pods with required anti-affinity."""
        return [self._pods[key] for key in self._repelling]

    def _put(self, pod: PodInfo) -> None:
        before = self._pods.get(pod.key)
        if before is not None:
            self.node(before.node).remove(before)
        self._pods[pod.key] = pod
        self.node(pod.node).add(pod)
        (self._repelling.add if pod.anti_affinity else self._repelling.discard)(pod.key)

    def node(self, name: str) -> NodeInfo:
        """Return what is known of a node, which may not exist."""
        info = self._nodes.get(name)
        if info is None:
            info = self._nodes[name] = NodeInfo(name)
        return info
