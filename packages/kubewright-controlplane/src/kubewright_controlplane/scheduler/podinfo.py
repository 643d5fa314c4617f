"""What the scheduler knows of a Pod: its requests, host ports, priority and affinity.

A `PodInfo` is read from the Pod once, so that scheduling another Pod decodes nothing.

Follows k8s.io/component-helpers/resource and kubernetes/pkg/scheduler/framework/types.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from kubewright.apis.core.v1 import Container, Pod, PodAffinityTerm
from kubewright.controllers import Request
from kubewright.machinery.quantity import Quantity
from kubewright.machinery.selectors import Selector
from kubewright_controlplane.common.pods import condition
from kubewright_controlplane.common.selection import compiled

PREEMPTED = "PreemptionByScheduler"
_CPU = "cpu"


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


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port that a Pod takes on its node."""

    address: str
    protocol: str
    number: int

    def conflicts(self, other: HostPort) -> bool:
        if (self.protocol, self.number) != (other.protocol, other.number):
            return False
        return self.address == other.address or "0.0.0.0" in (self.address, other.address)


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
            ports=tuple(_host_ports(pod)),
            affinity=_terms(near.required_during_scheduling_ignored_during_execution if near else (), namespace),
            anti_affinity=_terms(far.required_during_scheduling_ignored_during_execution if far else (), namespace),
            started=pod.status.start_time or meta.creation_timestamp,
            terminating=meta.deletion_timestamp is not None,
            preempted=target is not None and (target.status, target.reason) == ("True", PREEMPTED),
        )


def requests_of(pod: Pod) -> dict[str, int]:
    """Return the resources that a Pod requests of its node.

    Init containers run one after the other, before the containers and next to the sidecars that started earlier.
    """
    total: dict[str, int] = {}
    for container in pod.spec.containers:
        _add(total, _requests(container))
    sidecars: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in pod.spec.init_containers:
        now = dict(_requests(container))
        if container.restart_policy == "Always":
            _add(total, now)
            _add(sidecars, now)
            now = sidecars
        else:
            _add(now, sidecars)
        _raise_to(most, now)
    _raise_to(total, most)
    whole = pod.spec.resources
    for name, text in whole.requests.items() if whole is not None else ():
        if name in (_CPU, "memory") or name.startswith("hugepages-"):
            total[name] = amount(name, text)
    _add(total, {name: amount(name, text) for name, text in pod.spec.overhead.items()})
    return total


@lru_cache(maxsize=1024)
def amount(resource: str, text: str) -> int:
    """Return a quantity as a number: thousandths of CPU, units of everything else."""
    quantity = Quantity.parse(text)
    return quantity.milli_value if resource == _CPU else quantity.value


def _requests(container: Container) -> Mapping[str, int]:
    if container.resources is None:
        return {}
    return {name: amount(name, text) for name, text in container.resources.requests.items()}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, number in more.items():
        total[name] = total.get(name, 0) + number


def _raise_to(total: dict[str, int], least: Mapping[str, int]) -> None:
    for name, number in least.items():
        total[name] = max(total.get(name, 0), number)


def _host_ports(pod: Pod) -> Iterable[HostPort]:
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    for container in (*pod.spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port:
                yield HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)


def _terms(terms: Iterable[PodAffinityTerm], namespace: str) -> tuple[Term, ...]:
    return tuple(Term.of(each, namespace) for each in terms)
