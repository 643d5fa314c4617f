"""The state of a Pod: is it active, ready, available; and the order in which Pods are deleted.

Follows kubernetes/pkg/controller/controller_utils.go (ActivePods and the rank of Pods for deletion).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

from kubewright.apis.core.v1 import Pod, PodCondition

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def is_active(pod: Pod) -> bool:
    """Return whether the Pod runs or will run: it is neither finished nor being deleted."""
    return pod.metadata.deletion_timestamp is None and not is_finished(pod)


def is_finished(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def is_terminating(pod: Pod) -> bool:
    """Return whether the Pod is being deleted and has not ended yet."""
    return pod.metadata.deletion_timestamp is not None and not is_finished(pod)


def condition(pod: Pod, kind: str) -> PodCondition | None:
    return next((each for each in pod.status.conditions if each.type == kind), None)


def ready_since(pod: Pod) -> datetime | None:
    """Return when the Pod became ready; None while it is not."""
    ready = condition(pod, "Ready")
    if ready is None or ready.status != "True":
        return None
    return ready.last_transition_time or pod.metadata.creation_timestamp


def is_ready(pod: Pod) -> bool:
    return ready_since(pod) is not None


def available_at(pod: Pod, min_ready_seconds: int) -> datetime | None:
    """Return when a ready Pod becomes available; None while it is not ready."""
    since = ready_since(pod)
    return None if since is None else since + timedelta(seconds=min_ready_seconds)


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    at = available_at(pod, min_ready_seconds)
    return at is not None and (min_ready_seconds == 0 or at <= now)


def in_order_of_deletion(pods: Iterable[Pod], now: datetime) -> list[Pod]:
    """Sort by deletion cost, cheapest first.

    The order is: not scheduled, not running, not ready, low deletion cost, crowded node, ready last, most restarts,
    created last.
    """
    candidates = list(pods)
    crowd = Counter(pod.spec.node_name for pod in candidates if pod.spec.node_name and is_ready(pod))
    return sorted(candidates, key=lambda pod: _rank(pod, crowd, now))


_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def _rank(pod: Pod, crowd: Counter[str], now: datetime) -> tuple[float, ...]:
    node = pod.spec.node_name
    since = ready_since(pod)
    created = pod.metadata.creation_timestamp or now
    return (
        1 if node else 0,
        _PHASES.get(pod.status.phase or "", 0),
        0 if since is None else 1,
        _deletion_cost(pod),
        -crowd[node] if node else 0,
        (now - since).total_seconds() if since is not None else 0,
        -max((each.restart_count or 0 for each in pod.status.container_statuses), default=0),
        (now - created).total_seconds(),
    )


def _deletion_cost(pod: Pod) -> int:
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:  # the API server accepts any text here; a cost that is not a number counts as 0
        return 0
