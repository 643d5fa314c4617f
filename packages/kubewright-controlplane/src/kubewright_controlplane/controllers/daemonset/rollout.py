"""Decides which Pods of a DaemonSet are created and deleted next. Reads and writes nothing.

An update replaces Pods of older revisions. At most `maxUnavailable` nodes are without an available Pod at a time. With
`maxSurge`, that many nodes get a second Pod, and the first is deleted when the second is available.

Follows kubernetes/pkg/controller/daemon (daemon_controller.go, update.go).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kubewright.apis.apps.v1 import DaemonSet
from kubewright.apis.core.v1 import Node, Pod
from kubewright_controlplane.common import pods
from kubewright_controlplane.controllers.daemonset import placing
from kubewright_controlplane.controllers.history import REVISION_HASH
from kubewright_controlplane.controllers.intstr import scaled


@dataclass(slots=True)
class Step:
    """What to do now."""

    create: list[str] = field(default_factory=list[str])
    """Nodes that get a Pod."""
    delete: list[Pod] = field(default_factory=list[Pod])


class Plan:
    """Computes the next step of a DaemonSet."""

    def __init__(self, daemon_set: DaemonSet, nodes: Sequence[Node], revision_hash: str, now: datetime) -> None:
        self._set = daemon_set
        self._nodes = {node.metadata.name: node for node in nodes}
        self._hash = revision_hash
        self._now = now
        self.wanted = [name for name, node in self._nodes.items() if placing.should_run(daemon_set, node)]
        """The nodes that should have a Pod."""

    def next(self, by_node: Mapping[str, Sequence[Pod]]) -> Step:
        """Return the next step. `by_node` has the existing Pods, by the node that they run on or are created for."""
        step = self._manage(by_node)
        if step.create or step.delete:
            return step
        return self._update(by_node)

    def is_available(self, pod: Pod) -> bool:
        delay = self._set.spec.min_ready_seconds or 0
        return pod.metadata.deletion_timestamp is None and pods.is_available(pod, delay, self._now)

    def is_new(self, pod: Pod) -> bool:
        return pod.metadata.labels.get(REVISION_HASH) == self._hash

    def _manage(self, by_node: Mapping[str, Sequence[Pod]]) -> Step:
        """Plan one Pod on each node that should have one. Pods that have ended are deleted."""
        step = Step()
        for name in self.wanted:
            if not by_node.get(name):
                step.create.append(name)
        for name, present in by_node.items():
            live = [pod for pod in present if pod.metadata.deletion_timestamp is None]
            node = self._nodes.get(name)
            if node is None or not placing.may_stay(self._set, node):
                step.delete += live
                continue
            step.delete += [pod for pod in live if pods.is_finished(pod)]
            step.delete += self._too_many([pod for pod in live if not pods.is_finished(pod)])
        return step

    def _too_many(self, live: list[Pod]) -> list[Pod]:
        """Keep one Pod of a node. A new Pod replaces an old one when it is available."""
        if len(live) < 2:
            return []
        new = [pod for pod in live if self.is_new(pod)]
        old = [pod for pod in live if not self.is_new(pod)]
        if self._surge and len(new) == 1 and len(old) == 1:
            return old if self.is_available(new[0]) or not self.is_available(old[0]) else []
        return sorted(live, key=lambda pod: (not pod.spec.node_name, str(pod.metadata.creation_timestamp)))[1:]

    def _update(self, by_node: Mapping[str, Sequence[Pod]]) -> Step:
        strategy = self._set.spec.update_strategy
        if strategy is not None and strategy.type == "OnDelete":
            return Step()
        alone = {
            name: by_node[name][0]
            for name in self.wanted
            if len(by_node.get(name, ())) == 1 and by_node[name][0].metadata.deletion_timestamp is None
        }
        old = {name: pod for name, pod in alone.items() if not self.is_new(pod)}
        sick = [name for name, pod in old.items() if not self.is_available(pod)]
        well = [name for name in old if name not in sick]
        if self._surge:
            under_way = sum(len(by_node.get(name, ())) > 1 for name in self.wanted)
            return Step(create=sick + well[: max(0, self._surge - under_way)])
        without = sum(not any(map(self.is_available, by_node.get(name, ()))) for name in self.wanted)
        room = max(0, self._may_be_unavailable - without)
        return Step(delete=[old[name] for name in (*sick, *well[:room])])

    @property
    def _surge(self) -> int:
        strategy = self._set.spec.update_strategy
        rolling = strategy.rolling_update if strategy else None
        surge = rolling.max_surge if rolling else None
        return scaled(surge, len(self.wanted), round_up=True) if surge is not None else 0

    @property
    def _may_be_unavailable(self) -> int:
        strategy = self._set.spec.update_strategy
        rolling = strategy.rolling_update if strategy else None
        most = rolling.max_unavailable if rolling else None
        return scaled(1 if most is None else most, len(self.wanted), round_up=True)
