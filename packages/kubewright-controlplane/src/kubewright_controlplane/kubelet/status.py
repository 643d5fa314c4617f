"""The status of a Pod: phase, conditions, containers, addresses. What has not changed keeps its times.

Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from kubewright.apis.core.v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    EphemeralContainer,
    HostIP,
    Pod,
    PodIP,
    PodStatus,
    ResourceRequirements,
)
from kubewright_controlplane.kubelet.conditions import Statuses, conditions_of, is_sidecar


class Outcome(StrEnum):
    """The outcome of a Pod's containers. The values are those of the annotation for simulated Pods."""

    PENDING = "Pending"
    NOT_READY = "NotReady"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def phase(self) -> str:
        return "Running" if self is Outcome.NOT_READY else self.value

    @property
    def ends(self) -> bool:
        return self in (Outcome.SUCCEEDED, Outcome.FAILED)


def status_of(pod: Pod, outcome: Outcome, host: str, address: str, now: datetime) -> PodStatus:
    """Return the status of a simulated Pod on the node with the address `host`."""
    before = pod.status.init_container_statuses
    inits = [
        status
        for each in pod.spec.init_containers
        for status in _statuses([each], before, _of_init(each, outcome), now, ends_ready=not is_sidecar(each))
    ]
    containers = _statuses(pod.spec.containers, pod.status.container_statuses, outcome, now)
    ephemeral = _statuses(pod.spec.ephemeral_containers, pod.status.ephemeral_container_statuses, Outcome.RUNNING, now)
    shown = address if outcome is not Outcome.PENDING else None
    return status_with(pod, outcome, host, shown, Statuses(inits, containers, ephemeral), now)


def status_with(
    pod: Pod,
    outcome: Outcome,
    host: str,
    address: str | None,
    statuses: Statuses,
    now: datetime,
) -> PodStatus:
    """Return the status of a Pod with these containers. An `address` of None is not assigned yet."""
    return msgspec.structs.replace(
        pod.status,
        phase=outcome.phase,
        reason=None,
        message=None,
        observed_generation=pod.metadata.generation,
        start_time=pod.status.start_time or now,
        host_ip=host,
        host_ips=[HostIP(ip=host)],
        pod_ip=address,
        pod_ips=[PodIP(ip=address)] if address is not None else [],
        conditions=conditions_of(pod, outcome.phase, statuses, now),
        init_container_statuses=statuses.init,
        container_statuses=statuses.main,
        ephemeral_container_statuses=statuses.ephemeral,
    )


def report_deadline(status: PodStatus) -> None:
    """Report that the Pod was stopped after `spec.activeDeadlineSeconds`."""
    status.reason = "DeadlineExceeded"
    status.message = "Pod was active on the node longer than the specified deadline"


def seconds_active(pod: Pod, now: datetime) -> float:
    """Return the seconds that the Pod may still be active; infinity without a deadline."""
    seconds = pod.spec.active_deadline_seconds
    if seconds is None:
        return math.inf
    return seconds - (now - (pod.status.start_time or now)).total_seconds()


def _of_init(container: Container, outcome: Outcome) -> Outcome:
    """Return the outcome of an init container. A sidecar runs along with the Pod, the others have succeeded before."""
    if outcome is Outcome.PENDING:
        return outcome
    if is_sidecar(container):
        return Outcome.SUCCEEDED if outcome.ends else Outcome.RUNNING
    return Outcome.SUCCEEDED


def _statuses(
    containers: Sequence[Container | EphemeralContainer],
    before: Sequence[ContainerStatus],
    outcome: Outcome,
    now: datetime,
    *,
    ends_ready: bool = False,
) -> list[ContainerStatus]:
    """Return the statuses of containers. With `ends_ready`, a container that has succeeded is ready."""
    known = {each.name: each for each in before}
    ready = outcome is Outcome.RUNNING or (ends_ready and outcome is Outcome.SUCCEEDED)
    return [_status_of(each, known.get(each.name), outcome, ready, now) for each in containers]


def _status_of(
    container: Container | EphemeralContainer,
    before: ContainerStatus | None,
    outcome: Outcome,
    ready: bool,
    now: datetime,
) -> ContainerStatus:
    """Return the status of a container. It was restarted if its image changed, or resources that require it."""
    name, image, state = container.name, container.image or "", _state(outcome, now)
    resources = resources_of(container) if state.waiting is None else None
    restarts = 0
    if before is not None:
        restarted = before.image != image or (resources is not None and needs_restart(container, before.resources))
        if not restarted and before.ready == ready and _same_kind(before.state, state):
            if before.resources == resources:
                return before
            return msgspec.structs.replace(before, **_sizes(resources))
        restarts = (before.restart_count or 0) + restarted
    digest = hashlib.sha256(image.encode()).hexdigest()
    started = outcome is not Outcome.PENDING
    identity = hashlib.sha256(f"{name}{image}{restarts}{now}".encode()).hexdigest()
    return ContainerStatus(
        name=name,
        image=image,
        image_id=f"{image.partition('@')[0]}@sha256:{digest}" if started else "",
        container_id=f"simulated://{identity}" if started else None,
        ready=ready,
        started=outcome in (Outcome.RUNNING, Outcome.NOT_READY),
        restart_count=restarts,
        state=state,
        **_sizes(resources),
    )


def resources_of(container: Container | EphemeralContainer) -> ResourceRequirements:
    """Return the resources that a kubelet reports for a container that runs: those that it asks for."""
    asked = container.resources or ResourceRequirements()
    return ResourceRequirements(limits=asked.limits, requests=asked.requests)


def needs_restart(container: Container | EphemeralContainer, before: ResourceRequirements | None) -> bool:
    """Return whether a container has resources other than `before`, and a policy to restart for the difference."""
    if before is None:
        return False
    now = resources_of(container)
    return any(
        policy.restart_policy == "RestartContainer"
        and any(
            new.get(policy.resource_name) != old.get(policy.resource_name)
            for new, old in ((now.requests, before.requests), (now.limits, before.limits))
        )
        for policy in container.resize_policy
    )


def _sizes(resources: ResourceRequirements | None) -> dict[str, Any]:
    """Return the fields of a status that report the resources."""
    return {"resources": resources, "allocated_resources": resources.requests if resources is not None else {}}


def _state(outcome: Outcome, now: datetime) -> ContainerState:
    match outcome:
        case Outcome.PENDING:
            return ContainerState(waiting=ContainerStateWaiting(reason="ContainerCreating"))
        case Outcome.SUCCEEDED | Outcome.FAILED:
            code, reason = (0, "Completed") if outcome is Outcome.SUCCEEDED else (1, "Error")
            ended = ContainerStateTerminated(exit_code=code, reason=reason, started_at=now, finished_at=now)
            return ContainerState(terminated=ended)
        case _:
            return ContainerState(running=ContainerStateRunning(started_at=now))


def _same_kind(before: ContainerState | None, state: ContainerState) -> bool:
    if before is None:
        return False
    return [each is None for each in (before.waiting, before.running, before.terminated)] == [
        each is None for each in (state.waiting, state.running, state.terminated)
    ]
