"""The quality of service class of a Pod.

Follows k8s.io/kubernetes pkg/apis/core/helper/qos.
"""

from __future__ import annotations

from kubewright.machinery.json import JSONObject
from kubewright.machinery.quantity import Quantity


def qos_class(spec: JSONObject) -> str:
    """Return the quality of service class that follows from a Pod's requests and limits."""
    guaranteed, asks = True, False
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            limit, request = _amount(limits, name), _amount(requests, name)
            asks = asks or bool(limit or request)
            guaranteed = guaranteed and bool(limit) and limit == request
    if not asks:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _amount(resources: JSONObject, name: str) -> Quantity:
    return Quantity.of(resources[name]) if name in resources else Quantity(0)
