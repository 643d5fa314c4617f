"""What the scheduler knows of a Pod: its requests, host ports, priority and affinity.

A `PodInfo` is read from the Pod once, so that scheduling another Pod decodes nothing.

Follows k8s.io/component-helpers/resource and kubernetes/pkg/scheduler/framework/types.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from kubewright.apis.core.v1 import Pod, PodAffinityTerm
from kubewright.controllers import Request
from kubewright.machinery.selectors import Selector
from kubewright_controlplane.common.podresources import HostPort, host_ports, requests_of
from kubewright_controlplane.common.pods import condition
from kubewright_controlplane.common.selection import compiled

PREEMPTED = "PreemptionByScheduler"


@dataclass(frozen=True, slots=True)
class Term:
    """A term of Pod affinity: other Pods, and the label of nodes by which they are near or far."""

    topology_key: str
    selector: Selector | None
    """None selects no Pod."""
    namespaces: frozenset[str]
    namespace_selector: Selector | None

    @classmethod
    def of(cls, term: PodAffinityTerm, namespace: str) -> Term:
        own = not term.namespaces and term.namespace_selector is None
        return cls(
            term.topology_key,
            compiled(term.label_selector) if term.label_selector is not None else None,
            frozenset([namespace] if own else term.namespaces),
            compiled(term.namespace_selector) if term.namespace_selector is not None else None,
        )

    def matches(self, pod: PodInfo, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        """Return whether the term selects the Pod. `namespaces` has the labels of each namespace."""
        if self.selector is None or not self.selector.matches(pod.labels):
            return False
        namespace = pod.key.namespace or ""
        if namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and self.namespace_selector.matches(namespaces.get(namespace, {}))


@dataclass(slots=True)
class PodInfo:
    """A Pod in scheduling."""

    key: Request
    node: str
    labels: Mapping[str, str]
    priority: int
    requests: Mapping[str, int]
    """By resource: CPU in thousandths, everything else in units."""
    ports: tuple[HostPort, ...]
    affinity: tuple[Term, ...]
    anti_affinity: tuple[Term, ...]
    started: datetime | None
    terminating: bool
    preempted: bool
    """The scheduler deletes the Pod to make room."""

    @classmethod
    def of(cls, pod: Pod) -> PodInfo:
        meta, spec = pod.metadata, pod.spec
        namespace = meta.namespace or ""
        near = spec.affinity.pod_affinity if spec.affinity else None
        far = spec.affinity.pod_anti_affinity if spec.affinity else None
        target = condition(pod, "DisruptionTarget")
        return cls(
            key=Request(meta.namespace, meta.name),
            node=spec.node_name or "",
            labels=meta.labels,
            priority=spec.priority or 0,
            requests=requests_of(pod),
            ports=tuple(host_ports(pod)),
            affinity=_terms(near.required_during_scheduling_ignored_during_execution if near else (), namespace),
            anti_affinity=_terms(far.required_during_scheduling_ignored_during_execution if far else (), namespace),
            started=pod.status.start_time or meta.creation_timestamp,
            terminating=meta.deletion_timestamp is not None,
            preempted=target is not None and (target.status, target.reason) == ("True", PREEMPTED),
        )


def _terms(terms: Iterable[PodAffinityTerm], namespace: str) -> tuple[Term, ...]:
    return tuple(Term.of(each, namespace) for each in terms)
