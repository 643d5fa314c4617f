"""How many replicas a metric asks for.

Pods whose usage is unknown or that are not ready count so that the result is careful: as idle when scaling up, as busy
when scaling down.

Follows kubernetes/pkg/controller/podautoscaler/replica_calculator.go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from kubewright.apis.core.v1 import Pod
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.common.pods import condition, is_ready
from kubewright_controlplane.controllers.autoscaling.usage import Sample

_CPU_START: Final = timedelta(minutes=5)
"""How long after the start of a Pod its CPU counts only while it is ready."""
_READY_START: Final = timedelta(seconds=30)
"""How long after the start of a Pod it may become ready for the first time."""


class MetricFailed(Exception):
    """A metric asks for no number of replicas."""


class Tolerance(NamedTuple):
    """Deviations from the target that cause no change."""

    up: float = 0.1
    down: float = 0.1

    def covers(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Proposal(NamedTuple):
    """The replicas that a metric asks for."""

    replicas: int
    average: int
    """The average usage of a Pod, in thousandths."""
    utilization: int | None = None
    """The usage in percent of the requests."""


@dataclass(slots=True)
class Groups:
    """The Pods of a target, by what is known of them."""

    ready: int
    unready: set[str]
    missing: set[str]
    values: dict[str, int]

    @classmethod
    def of(
        cls, pods: Sequence[Pod], samples: Mapping[str, Sample], resource: str, container: str, now: datetime
    ) -> Groups:
        groups = cls(0, set(), set(), {})
        for pod in pods:
            name = pod.metadata.name
            if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Failed":
                continue
            sample = samples.get(name)
            value = sample.of(container) if sample is not None else None
            if (pod.status.phase or "Pending") == "Pending":
                groups.unready.add(name)
            elif sample is None or value is None:
                groups.missing.add(name)
            elif resource == "cpu" and _is_unready(pod, sample, now):
                groups.unready.add(name)
            else:
                groups.ready += 1
                groups.values[name] = value
        return groups


def by_utilization(
    groups: Groups, requests: Mapping[str, int], target: int, current: int, tolerance: Tolerance
) -> Proposal:
    """Return the replicas for a target in percent of the requests. Raises MetricFailed."""
    ratio, utilization, average = _utilization(groups.values, requests, target)
    values = _careful(groups, ratio, {name: requests.get(name, 0) * max(100, target) // 100 for name in groups.missing})
    if values is None:
        replicas = current if tolerance.covers(ratio) else math.ceil(ratio * groups.ready)
        return Proposal(replicas, average, utilization)
    changed, _, _ = _utilization(values, requests, target)
    return Proposal(_settled(ratio, changed, len(values), current, tolerance), average, utilization)


def by_average(groups: Groups, target: int, current: int, tolerance: Tolerance) -> Proposal:
    """Return the replicas for a target in units of the resource."""
    average = sum(groups.values.values()) // len(groups.values)
    ratio = average / target
    values = _careful(groups, ratio, dict.fromkeys(groups.missing, target))
    if values is None:
        return Proposal(current if tolerance.covers(ratio) else math.ceil(ratio * groups.ready), average)
    changed = sum(values.values()) // len(values) / target
    return Proposal(_settled(ratio, changed, len(values), current, tolerance), average)


def by_value(usage: int, target: int, pods: Sequence[Pod], current: int, tolerance: Tolerance) -> int:
    """Return the replicas for a metric that the Pods together shall bring to its target. Raises MetricFailed."""
    ratio = usage / target
    if not current:
        return math.ceil(ratio)
    if tolerance.covers(ratio):
        return current
    if not pods:
        raise MetricFailed(
            "unable to calculate ready pods: no pods returned by selector while calculating replica count"
        )
    return math.ceil(ratio * sum(1 for pod in pods if pod.status.phase == "Running" and is_ready(pod)))


def by_share(usage: int, target: int, current: int, tolerance: Tolerance) -> Proposal:
    """Return the replicas for a metric of which each Pod shall have the target as its share."""
    if current and tolerance.covers(usage / (target * current)):
        return Proposal(current, math.ceil(usage / current))
    return Proposal(math.ceil(usage / target), math.ceil(usage / max(current, 1)))


def requests_of(pods: Sequence[Pod], resource: str, container: str) -> dict[str, int]:
    """Return what each Pod requests of a resource, in thousandths. Raises MetricFailed."""
    return {pod.metadata.name: _request_of(pod, resource, container) for pod in pods}


def _careful(groups: Groups, ratio: float, busy: Mapping[str, int]) -> dict[str, int] | None:
    """Return the usage with assumptions for unknown Pods; None if none are needed."""
    up_with_unready = bool(groups.unready) and ratio > 1.0
    if not up_with_unready and not groups.missing:
        return None
    values = dict(groups.values)
    if ratio < 1.0:
        values |= busy
    elif ratio > 1.0:
        values |= dict.fromkeys(groups.missing, 0)
    return values | dict.fromkeys(groups.unready, 0) if up_with_unready else values


def _settled(ratio: float, changed: float, pods: int, current: int, tolerance: Tolerance) -> int:
    """Return the replicas, unless the assumptions would turn the direction around."""
    if tolerance.covers(changed) or (ratio < 1.0 < changed) or (ratio > 1.0 > changed):
        return current
    replicas = math.ceil(changed * pods)
    turns = (changed < 1.0 and replicas > current) or (changed > 1.0 and replicas < current)
    return current if turns else replicas


def _utilization(values: Mapping[str, int], requests: Mapping[str, int], target: int) -> tuple[float, int, int]:
    known = {name: value for name, value in values.items() if name in requests}
    requested = sum(requests[name] for name in known)
    if not requested:
        raise MetricFailed("no metrics returned matched known pods")
    used = sum(known.values())
    utilization = used * 100 // requested
    return utilization / target, utilization, used // len(known)


def _is_unready(pod: Pod, sample: Sample, now: datetime) -> bool:
    ready, start = condition(pod, "Ready"), pod.status.start_time
    if ready is None or start is None:
        return True
    moved = ready.last_transition_time or start
    if start + _CPU_START > now:
        return ready.status == "False" or (sample.at is not None and sample.at < moved + sample.window)
    return ready.status == "False" and start + _READY_START > moved


def _request_of(pod: Pod, resource: str, container: str) -> int:
    whole = pod.spec.resources
    if not container and whole is not None and whole.requests:
        if resource not in whole.requests:
            raise MetricFailed(f"missing pod-level request for {resource} in Pod {pod.metadata.name}")
        return Quantity.parse(whole.requests[resource]).milli_value
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    wanted = [each for each in (*pod.spec.containers, *sidecars) if container in ("", each.name)]
    if container and not wanted:
        raise MetricFailed(f"container {container} not found in Pod {pod.metadata.name}")
    total = 0
    for each in wanted:
        requests = each.resources.requests if each.resources else {}
        if resource not in requests:
            where = f"container {each.name} of Pod {pod.metadata.name}"
            raise MetricFailed(f"missing request for {resource} in {where}")
        total += Quantity.parse(requests[resource]).milli_value
    return total
