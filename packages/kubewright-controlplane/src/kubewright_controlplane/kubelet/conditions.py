"""The conditions of a Pod, from the statuses of its containers. A condition that has not changed keeps its times.

Follows k8s.io/kubernetes pkg/kubelet/status/generate.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from kubewright.apis.core.v1 import Container, ContainerStatus, Pod, PodCondition
from kubewright_controlplane.common.pods import condition

_TERMINAL: Final = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}


class Statuses(NamedTuple):
    """The statuses of all containers of a Pod."""

    init: list[ContainerStatus]
    main: list[ContainerStatus]
    ephemeral: list[ContainerStatus]


class _State(NamedTuple):
    """Whether a condition holds, and the reason and the message if it does not."""

    holds: bool
    reason: str | None = None
    message: str | None = None


def is_sidecar(container: Container) -> bool:
    """Return whether an init container runs along with the Pod."""
    return container.restart_policy == "Always"


def conditions_of(pod: Pod, phase: str, statuses: Statuses, now: datetime) -> list[PodCondition]:
    """Return all conditions of a Pod. Those that other components have set are kept."""
    containers = _containers_ready(pod, phase, statuses)
    wanted = {
        "PodReadyToStartContainers": _State(phase not in _TERMINAL and _has_started(statuses)),
        "Initialized": _initialized(pod, phase, statuses),
        "Ready": _gates(pod) if containers.holds else containers,
        "ContainersReady": containers,
        "PodScheduled": _State(True),
    }
    kept = [each for each in pod.status.conditions if each.type not in wanted]
    return [_condition(pod, kind, state, now) for kind, state in wanted.items()] + kept


def _has_started(statuses: Statuses) -> bool:
    return any(each.container_id for each in (*statuses.init, *statuses.main))


def _initialized(pod: Pod, phase: str, statuses: Statuses) -> _State:
    if phase == "Succeeded":
        return _State(True, "PodCompleted")
    specs = {each.name: each for each in pod.spec.init_containers}
    incomplete = [each.name for each in statuses.init if not _is_complete(specs[each.name], each)]
    if not incomplete or any(each.state is not None and not each.state.waiting for each in statuses.main):
        return _State(True)
    return _State(False, "ContainersNotInitialized", f"containers with incomplete status: {_listed(incomplete)}")


def _is_complete(spec: Container, status: ContainerStatus) -> bool:
    return bool(status.started if is_sidecar(spec) else status.ready)


def _containers_ready(pod: Pod, phase: str, statuses: Statuses) -> _State:
    if phase in _TERMINAL:
        return _State(False, _TERMINAL[phase])
    sidecars = {each.name for each in pod.spec.init_containers if is_sidecar(each)}
    counted = (*(each for each in statuses.init if each.name in sidecars), *statuses.main)
    unready = [each.name for each in counted if not each.ready]
    if unready:
        return _State(False, "ContainersNotReady", f"containers with unready status: {_listed(unready)}")
    return _State(True)


def _gates(pod: Pod) -> _State:
    """Return whether the conditions hold that the readiness gates of the Pod name."""
    messages = list(_closed(pod, [each.condition_type for each in pod.spec.readiness_gates]))
    return _State(False, "ReadinessGatesNotReady", ", ".join(messages)) if messages else _State(True)


def _closed(pod: Pod, gates: Sequence[str]) -> Iterable[str]:
    for gate in gates:
        found = condition(pod, gate)
        if found is None:
            yield f'corresponding condition of pod readiness gate "{gate}" does not exist.'
        elif found.status != "True":
            yield f'the status of pod readiness gate "{gate}" is not "True", but {found.status}'


def _listed(names: Iterable[str]) -> str:
    return f"[{' '.join(names)}]"


def _condition(pod: Pod, kind: str, state: _State, now: datetime) -> PodCondition:
    status = "True" if state.holds else "False"
    before = condition(pod, kind)
    moved = now if before is None or before.status != status else before.last_transition_time
    return PodCondition(
        type=kind,
        status=status,
        reason=state.reason,
        message=state.message,
        last_transition_time=moved,
        observed_generation=pod.metadata.generation,
    )
