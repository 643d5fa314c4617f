"""Pod affinity and topology spread: what other Pods allow.

Follows kubernetes/pkg/scheduler/framework/plugins (interpodaffinity, podtopologyspread).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kubewright.apis.core.v1 import Pod, TopologySpreadConstraint
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.controllers import Request
from kubewright.machinery.selectors import Selector
from kubewright_controlplane.common import affinity, taints
from kubewright_controlplane.common.selection import compiled
from kubewright_controlplane.scheduler.cluster import NodeInfo
from kubewright_controlplane.scheduler.podinfo import PodInfo, Term

Domain = tuple[str, str]
"""A label of nodes and its value."""
Namespaces = Mapping[str, Mapping[str, str]]
"""The labels of each namespace."""


class Neighbors:
    """The domains that required affinity and anti-affinity allow or rule out for one Pod."""

    def __init__(
        self,
        pod: PodInfo,
        nodes: Sequence[NodeInfo],
        repelling: Iterable[PodInfo],
        namespaces: Namespaces,
        without: Collection[Request],
    ) -> None:
        """`repelling` are the existing Pods with anti-affinity. Pods in `without` do not count."""
        self._pod = pod
        labels = {info.name: info.node.metadata.labels for info in nodes}
        self._near: Counter[Domain] = Counter()
        self._far: set[Domain] = set()
        self._repelled = {
            (term.topology_key, value)
            for other in repelling
            if other.key not in without
            for term in other.anti_affinity
            if (value := labels.get(other.node, {}).get(term.topology_key)) is not None
            and term.matches(pod, namespaces)
        }
        if pod.affinity or pod.anti_affinity:
            for info in nodes:
                for other in info.pods.values():
                    if other.key not in without:
                        self._count(other, labels[info.name], namespaces)
        self._attracts_itself = bool(pod.affinity) and all(each.matches(pod, namespaces) for each in pod.affinity)

    def _count(self, other: PodInfo, labels: Mapping[str, str], namespaces: Namespaces) -> None:
        terms = self._pod.affinity
        if terms and all(term.matches(other, namespaces) for term in terms):
            self._near.update(
                (term.topology_key, labels[term.topology_key]) for term in terms if term.topology_key in labels
            )
        for term in self._pod.anti_affinity:
            if term.topology_key in labels and term.matches(other, namespaces):
                self._far.add((term.topology_key, labels[term.topology_key]))

    def attracts(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with these labels is near the Pods that the Pod wants to be near.

        The first of Pods that want to be near each other may go anywhere.
        """
        domains = [_domain(term, labels) for term in self._pod.affinity]
        if any(domain is None for domain in domains):
            return False
        if all(self._near[domain] > 0 for domain in domains if domain is not None):
            return True
        return not self._near and self._attracts_itself

    def repels(self, labels: Mapping[str, str]) -> bool:
        """Return whether the Pod wants to be far from a Pod in a domain of the node."""
        return any(_domain(term, labels) in self._far for term in self._pod.anti_affinity)

    def is_repelled(self, labels: Mapping[str, str]) -> bool:
        """Return whether a Pod in a domain of the node wants to be far from the Pod."""
        return bool(self._repelled) and any(domain in self._repelled for domain in labels.items())


def _domain(term: Term, labels: Mapping[str, str]) -> Domain | None:
    value = labels.get(term.topology_key)
    return None if value is None else (term.topology_key, value)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A topology spread constraint."""

    key: str
    max_skew: int
    min_domains: int
    selector: Selector
    honors_affinity: bool
    honors_taints: bool

    @classmethod
    def of(cls, constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Constraint:
        selector = constraint.label_selector
        if selector is not None:
            same = {key: labels[key] for key in constraint.match_label_keys if key in labels}
            selector = LabelSelector(
                match_labels={**selector.match_labels, **same}, match_expressions=selector.match_expressions
            )
        return cls(
            constraint.topology_key,
            constraint.max_skew,
            constraint.min_domains or 1,
            compiled(selector) if selector is not None else Selector.from_dict(None),
            constraint.node_affinity_policy != "Ignore",
            constraint.node_taints_policy == "Honor",
        )


class Spread:
    """The number of matching Pods in each domain, for one Pod and the constraints of one action."""

    def __init__(self, pod: Pod, nodes: Sequence[NodeInfo], action: str, without: Collection[Request]) -> None:
        labels = pod.metadata.labels
        self.constraints = [
            Constraint.of(each, labels)
            for each in pod.spec.topology_spread_constraints
            if each.when_unsatisfiable == action
        ]
        self._own = [each.selector.matches(labels) for each in self.constraints]
        self.counts: list[Counter[str]] = [Counter() for _ in self.constraints]
        keys = {each.key for each in self.constraints}
        for info in nodes if keys else ():
            values = info.node.metadata.labels
            if keys <= values.keys():
                for constraint, counts in zip(self.constraints, self.counts, strict=True):
                    if _includes(constraint, pod, info):
                        counts[values[constraint.key]] += _matching(constraint, pod.metadata.namespace, info, without)

    def lacks_label(self, labels: Mapping[str, str]) -> bool:
        return any(each.key not in labels for each in self.constraints)

    def is_too_uneven(self, labels: Mapping[str, str]) -> bool:
        """Return whether the Pod would exceed the skew of a constraint on a node with these labels."""
        for constraint, counts, own in zip(self.constraints, self.counts, self._own, strict=True):
            least = min(counts.values(), default=0) if len(counts) >= constraint.min_domains else 0
            if counts.get(labels[constraint.key], 0) + own - least > constraint.max_skew:
                return True
        return False


def _includes(constraint: Constraint, pod: Pod, info: NodeInfo) -> bool:
    if constraint.honors_affinity and not affinity.matches(pod, info.node):
        return False
    tolerations = pod.spec.tolerations
    return not constraint.honors_taints or taints.untolerated(info.node, tolerations, "NoSchedule", "NoExecute") is None


def _matching(constraint: Constraint, namespace: str, info: NodeInfo, without: Collection[Request]) -> int:
    if constraint.selector.empty:
        return 0
    return sum(
        each.key.namespace == namespace
        and not each.terminating
        and each.key not in without
        and bool(constraint.selector.matches(each.labels))
        for each in info.pods.values()
    )
