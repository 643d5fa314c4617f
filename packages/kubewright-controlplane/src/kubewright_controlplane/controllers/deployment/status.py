"""The status of a Deployment: the counts of its ReplicaSets, and its conditions.

Follows kubernetes/pkg/controller/deployment (sync.go, progress.go).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from kubewright.apis.apps.v1 import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from kubewright_controlplane.controllers.deployment import rollout

NO_DEADLINE = 2**31 - 1
_TIMED_OUT = "ProgressDeadlineExceeded"


def status_of(
    deployment: Deployment, new: ReplicaSet | None, olds: Sequence[ReplicaSet], now: datetime
) -> DeploymentStatus:
    """Return the current status. Conditions that did not change keep their times."""
    sets = [*olds, *([new] if new else [])]
    replicas = sum(each.status.replicas or 0 for each in sets)
    available = rollout.available(sets)
    status = DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=replicas or None,
        updated_replicas=((new.status.replicas or 0) if new else 0) or None,
        ready_replicas=sum(each.status.ready_replicas or 0 for each in sets) or None,
        available_replicas=available or None,
        unavailable_replicas=max(sum(each.spec.replicas or 0 for each in sets) - available, 0) or None,
        collision_count=deployment.status.collision_count,
        terminating_replicas=_terminating(sets),
        conditions=list(deployment.status.conditions),
    )
    _set(status, _available(deployment, available), now)
    if deployment.spec.progress_deadline_seconds in (None, NO_DEADLINE):
        _remove(status, "Progressing")
    else:
        progressing = _progressing(deployment, new, status, now)
        if progressing is not None:
            _set(status, progressing, now)
    failure = _failure(sets)
    if failure is None:
        _remove(status, "ReplicaFailure")
    else:
        _set(status, failure, now)
    return status


def creation_failed(deployment: Deployment, message: str, now: datetime) -> DeploymentStatus:
    """Return the previous status with the condition that the new ReplicaSet can't be created."""
    status = msgspec.structs.replace(deployment.status, conditions=list(deployment.status.conditions))
    if deployment.spec.progress_deadline_seconds not in (None, NO_DEADLINE):
        _set(status, _progress("False", "ReplicaSetCreateError", message), now)
    return status


def time_left(deployment: Deployment, status: DeploymentStatus, now: datetime) -> timedelta | None:
    """Return the time until a rollout without progress fails; None without a rollout or a deadline."""
    deadline = deployment.spec.progress_deadline_seconds
    progressing = _condition(status, "Progressing")
    if deadline is None or deadline == NO_DEADLINE or progressing is None or progressing.last_update_time is None:
        return None
    if progressing.reason in ("NewReplicaSetAvailable", _TIMED_OUT):
        return None
    return max(progressing.last_update_time + timedelta(seconds=deadline) - now, timedelta(0))


def _terminating(sets: Sequence[ReplicaSet]) -> int | None:
    counts = [each.status.terminating_replicas for each in sets]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _available(deployment: Deployment, available: int) -> DeploymentCondition:
    if available >= rollout.Bounds.of(deployment).least_available:
        return DeploymentCondition(
            type="Available",
            status="True",
            reason="MinimumReplicasAvailable",
            message="Deployment has minimum availability.",
        )
    return DeploymentCondition(
        type="Available",
        status="False",
        reason="MinimumReplicasUnavailable",
        message="Deployment does not have minimum availability.",
    )


def _progressing(
    deployment: Deployment, new: ReplicaSet | None, status: DeploymentStatus, now: datetime
) -> DeploymentCondition | None:
    before = _condition(status, "Progressing")
    if deployment.spec.paused:
        return _paused(before)
    settled = before is not None and before.reason == "NewReplicaSetAvailable"
    if settled and status.replicas == status.updated_replicas:
        return None  # Pods change, but no rollout is in progress
    named = f'ReplicaSet "{new.metadata.name}"' if new else f'Deployment "{deployment.metadata.name}"'
    if _complete(deployment, status):
        return _progress("True", "NewReplicaSetAvailable", f"{named} has successfully progressed.")
    if before is None or before.reason == "DeploymentPaused":
        if before is not None:
            return _progress("Unknown", "DeploymentResumed", "Deployment is resumed")
        return _progress("True", "NewReplicaSetCreated", f"Created new replica set {named.partition(' ')[2]}")
    if _moved(deployment, status):
        return _progress("True", "ReplicaSetUpdated", f"{named} is progressing.")
    left = time_left(deployment, status, now)
    if left is not None and left <= timedelta(0):
        return _progress("False", _TIMED_OUT, f"{named} has timed out progressing.")
    return None


def _paused(before: DeploymentCondition | None) -> DeploymentCondition | None:
    if before is not None and before.reason in ("DeploymentPaused", _TIMED_OUT):
        return None
    return _progress("Unknown", "DeploymentPaused", "Deployment is paused")


def _progress(status: str, reason: str, message: str) -> DeploymentCondition:
    return DeploymentCondition(type="Progressing", status=status, reason=reason, message=message)


def _complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    wanted = rollout.wanted(deployment)
    counts = (status.updated_replicas, status.replicas, status.available_replicas)
    return all((count or 0) == wanted for count in counts)


def _moved(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Return whether there was progress since the last status: more updated, ready or available Pods, or fewer old
    ones.
    """
    was = deployment.status

    def old_pods(each: DeploymentStatus) -> int:
        return (each.replicas or 0) - (each.updated_replicas or 0)

    return (
        (status.updated_replicas or 0) > (was.updated_replicas or 0)
        or old_pods(status) < old_pods(was)
        or (status.ready_replicas or 0) > (was.ready_replicas or 0)
        or (status.available_replicas or 0) > (was.available_replicas or 0)
    )


def _failure(sets: Sequence[ReplicaSet]) -> DeploymentCondition | None:
    """Return the condition that Pods can't be created or deleted, from the newest ReplicaSet that has it."""
    for each in reversed(sets):
        for found in each.status.conditions:
            if found.type == "ReplicaFailure":
                return DeploymentCondition(
                    type="ReplicaFailure", status=found.status, reason=found.reason, message=found.message
                )
    return None


def _remove(status: DeploymentStatus, kind: str) -> None:
    status.conditions = [each for each in status.conditions if each.type != kind]


def _condition(status: DeploymentStatus, kind: str) -> DeploymentCondition | None:
    return next((each for each in status.conditions if each.type == kind), None)


def _set(status: DeploymentStatus, condition: DeploymentCondition, now: datetime) -> None:
    """Set a condition. Its transition time changes with its status, its update time with any of its fields."""
    before = _condition(status, condition.type)
    moves = condition.reason == "ReplicaSetUpdated"  # this condition reports progress
    if before is not None and not moves and _is_same_condition(before, condition):
        return
    same_status = before is not None and before.status == condition.status
    condition.last_update_time = now
    condition.last_transition_time = before.last_transition_time if before is not None and same_status else now
    index = next((at for at, each in enumerate(status.conditions) if each.type == condition.type), None)
    if index is None:
        status.conditions.append(condition)
    else:
        status.conditions[index] = condition


def _is_same_condition(a: DeploymentCondition, b: DeploymentCondition) -> bool:
    return (a.status, a.reason, a.message) == (b.status, b.reason, b.message)
