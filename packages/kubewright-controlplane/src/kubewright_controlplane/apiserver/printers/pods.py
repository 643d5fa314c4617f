"""The row of a Pod: its state in one word, from its phase, conditions and containers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.printers.ages import age
from kubewright_controlplane.apiserver.printers.cells import (
    NONE,
    age_of,
    at,
    condition,
    is_true,
    items,
    name,
    number,
    text,
)

_TERMINAL = ("Succeeded", "Failed")


def pod(obj: JSONObject, now: datetime) -> list[object]:
    summary = _Summary(obj)
    ips = items(obj, "status", "podIPs")
    return [
        name(obj),
        f"{summary.ready}/{summary.total}",
        summary.reason,
        summary.restarted(now),
        age_of(obj, now),
        text(ips[0], "ip") if ips else NONE,
        text(obj, "spec", "nodeName", default=NONE),
        text(obj, "status", "nominatedNodeName", default=NONE),
        _readiness_gates(obj),
    ]


class _Summary:
    """Ready containers, restarts, and the reason for the state of a Pod."""

    def __init__(self, obj: JSONObject) -> None:
        self.ready = 0
        self.total = len(items(obj, "spec", "containers"))
        self.reason = text(obj, "status", "reason") or text(obj, "status", "phase")
        self._restarts = 0
        self._last_restart = ""
        scheduled = condition(obj, "PodScheduled")
        if scheduled is not None and scheduled.get("reason") == "SchedulingGated":
            self.reason = "SchedulingGated"
        initializing = self._inspect_init_containers(obj)
        if not initializing or is_true(obj, "Initialized"):
            self._inspect_containers(obj)
        self._inspect_deletion(obj)

    def restarted(self, now: datetime) -> str:
        if self._restarts and self._last_restart:
            return f"{self._restarts} ({age(self._last_restart, now)} ago)"
        return str(self._restarts)

    def _inspect_init_containers(self, obj: JSONObject) -> bool:
        """Return whether an init container has not finished yet."""
        sidecars = {
            text(each, "name") for each in items(obj, "spec", "initContainers") if each.get("restartPolicy") == "Always"
        }
        self.total += len(sidecars)
        statuses = items(obj, "status", "initContainerStatuses")
        for index, status in enumerate(statuses):
            self._count_restarts(status)
            if at(status, "state", "terminated", "exitCode") == 0 and at(status, "state", "terminated") is not None:
                continue
            if text(status, "name") in sidecars and status.get("started"):
                self.ready += bool(status.get("ready"))
                continue
            self.reason = _init_reason(status, index, len(items(obj, "spec", "initContainers")))
            return True
        self._forget_init_restarts(statuses, sidecars)
        return False

    def _forget_init_restarts(self, statuses: Sequence[JSONObject], sidecars: set[str]) -> None:
        """Count only containers that keep running, once a Pod is initialized."""
        self._restarts, self._last_restart = 0, ""
        for status in statuses:
            if text(status, "name") in sidecars:
                self._count_restarts(status)

    def _inspect_containers(self, obj: JSONObject) -> None:
        running, failure = False, ""
        for status in reversed(items(obj, "status", "containerStatuses")):
            self._count_restarts(status)
            terminated = at(status, "state", "terminated")
            if waiting := text(status, "state", "waiting", "reason"):
                self.reason = waiting
            elif terminated is not None:
                self.reason = _terminated_reason(terminated)
                failure = self.reason if terminated.get("exitCode") else failure
            elif status.get("ready") and at(status, "state", "running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and is_true(obj, "Ready"):
                self.reason = "Running"
            else:
                self.reason = failure or ("NotReady" if running else self.reason)

    def _inspect_deletion(self, obj: JSONObject) -> None:
        if not at(obj, "metadata", "deletionTimestamp"):
            return
        if at(obj, "status", "reason") == "NodeLost":
            self.reason = "Unknown"
        elif at(obj, "status", "phase") not in _TERMINAL:
            self.reason = "Terminating"

    def _count_restarts(self, status: JSONObject) -> None:
        self._restarts += number(status, "restartCount")
        self._last_restart = max(self._last_restart, text(status, "lastState", "terminated", "finishedAt"))


def _init_reason(status: JSONObject, index: int, total: int) -> str:
    terminated = at(status, "state", "terminated")
    if terminated is not None:
        return f"Init:{_terminated_reason(terminated)}"
    waiting = text(status, "state", "waiting", "reason")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{index}/{total}"


def _terminated_reason(terminated: JSONObject) -> str:
    if reason := text(terminated, "reason"):
        return reason
    if signal := number(terminated, "signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{number(terminated, 'exitCode')}"


def _readiness_gates(obj: JSONObject) -> str:
    gates = items(obj, "spec", "readinessGates")
    if not gates:
        return NONE
    met = sum(is_true(obj, text(gate, "conditionType")) for gate in gates)
    return f"{met}/{len(gates)}"
