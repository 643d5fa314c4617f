"""What experiments read in documents: fields, numbers of Pods, and whether samples and operands are ready."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from kubewright.health import health_by_condition, health_of, ready_condition
from kubewright.machinery.json import JSONObject, is_object

WORKLOADS: Final = ("Deployment", "StatefulSet", "DaemonSet")
"""Kinds with Pods of their own. A ReplicaSet is part of a Deployment."""
_OF_COLUMN: Final = re.compile(r'\.status\.conditions\[\?\(@\.type\s*==\s*["\'](\w+)["\']\)\]')


def at(document: JSONObject, path: str) -> object:
    """Return the value at a path such as `spec.version`; None if there is none."""
    value: object = document
    for key in path.strip(".").split("."):
        value = value.get(key) if is_object(value) else None
    return value


def number(document: JSONObject, path: str) -> int:
    """Return the integer at a path; 0 if there is none."""
    value = at(document, path)
    return value if isinstance(value, int) else 0


def nested(path: str, value: object) -> JSONObject:
    """Return a merge patch that sets the value at a path such as `spec.version`."""
    found: object = value
    for key in reversed(path.strip(".").split(".")):
        found = {key: found}
    return found if is_object(found) else {}


def wanted(workload: JSONObject) -> int:
    """Return the number of Pods that a workload is to have."""
    if workload["kind"] == "DaemonSet":
        return number(workload, "status.desiredNumberScheduled")
    return 1 if at(workload, "spec.replicas") is None else number(workload, "spec.replicas")


def available(workload: JSONObject) -> int:
    """Return the number of available Pods of a workload."""
    of_daemons = workload["kind"] == "DaemonSet"
    return number(workload, "status.numberAvailable" if of_daemons else "status.availableReplicas")


def reason_unhealthy(document: JSONObject) -> str:
    """Return why an operand is not healthy; empty if it is.

    The address of a load balancer comes from the cluster, and says nothing about the operator.
    """
    return "" if document["kind"] == "Service" else health_of(document).message


class Readiness:
    """Which condition says whether a custom resource is ready, and what it says."""

    def __init__(self, crds: Iterable[JSONObject], declared: Mapping[str, str]) -> None:
        self._conditions = {**_of_columns(crds), **declared}

    def condition_of(self, document: JSONObject) -> str:
        """Return the type of the condition; empty if the kind has none."""
        known = self._conditions.get(document["kind"])
        return known or ready_condition(document)

    def reason_not_ready(self, document: JSONObject) -> str:
        """Return why an object is not ready, in its own words; empty if it is."""
        return health_by_condition(document, self.condition_of(document)).message


def _of_columns(crds: Iterable[JSONObject]) -> dict[str, str]:
    found: dict[str, str] = {}
    for crd in crds:
        for version in crd["spec"]["versions"]:
            for column in version.get("additionalPrinterColumns") or []:
                matched = _OF_COLUMN.search(column.get("jsonPath", ""))
                if matched:
                    found.setdefault(crd["spec"]["names"]["kind"], matched[1])
    return found
