"""Resource requirements: the requests and limits of a container."""

from __future__ import annotations

from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, invalid, required
from kubewright.machinery.json import JSONObject
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.apiserver.registry import checks

_CONTAINER: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_STANDARD: Final = _CONTAINER | {
    "storage", "pods", "services", "secrets", "configmaps", "replicationcontrollers", "resourcequotas",
    "persistentvolumeclaims", "requests.cpu", "requests.memory", "requests.storage", "requests.ephemeral-storage",
    "limits.cpu", "limits.memory", "limits.ephemeral-storage", "services.nodeports", "services.loadbalancers",
}  # fmt: skip

_HUGE_PAGES: Final = ("hugepages-", "requests.hugepages-")
_OBJECTS: Final = frozenset({
    "pods", "services", "secrets", "configmaps", "replicationcontrollers", "resourcequotas", "persistentvolumeclaims",
    "services.nodeports", "services.loadbalancers",
})  # fmt: skip


def validate(path: str, requirements: JSONObject) -> list[FieldError]:
    """Return the errors of a container's `resources`."""
    limits, requests = requirements.get("limits") or {}, requirements.get("requests") or {}
    errors: list[FieldError] = []
    for name, value in limits.items():
        errors += _resource(f"{path}.limits[{name}]", name, value)
    for name, value in requests.items():
        errors += _resource(f"{path}.requests[{name}]", name, value)
        asked = Quantity.of(value)
        if name in limits:
            limit = Quantity.of(limits[name])
            if not may_overcommit(name) and asked != limit:
                errors.append(invalid(f"{path}.requests", str(asked), f"must be equal to {name} limit of {limit}"))
            elif asked > limit:
                detail = f"must be less than or equal to {name} limit of {limit}"
                errors.append(invalid(f"{path}.requests", str(asked), detail))
        elif not may_overcommit(name):
            errors.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
    return errors


def quota_name(path: str, name: str) -> list[FieldError]:
    """Return the errors of a name in a quota: a resource, or `count/` and the name of a kind's resource."""
    errors = resource_name(path, name)
    if "/" not in name and not is_standard_for_quota(name):
        errors.append(invalid(path, name, "must be a standard resource for quota"))
    return errors


def resource_name(path: str, name: str) -> list[FieldError]:
    """Return the errors of the name of any resource."""
    errors = checks.named(path, name, names.qualified_name)
    if not errors and "/" not in name and name not in _STANDARD and not name.startswith(_HUGE_PAGES):
        errors.append(invalid(path, name, "must be a standard resource type or fully qualified"))
    return errors


def container_name(path: str, name: str) -> list[FieldError]:
    """Return the errors of the name of a resource that a container uses."""
    errors = resource_name(path, name)
    if "/" not in name:
        if name not in _CONTAINER and not name.startswith("hugepages-"):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif not _is_native(name) and not is_extended(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def is_counted(name: str) -> bool:
    """Return whether a resource in a quota is counted in whole numbers: objects, and the resources of devices."""
    if "/" in name:
        return "kubernetes.io/" not in name and not name.startswith("requests.")
    return name in _OBJECTS


def is_standard_for_quota(name: str) -> bool:
    return name in _STANDARD - {"storage"} or name.startswith(_HUGE_PAGES)


def may_overcommit(name: str) -> bool:
    return _is_native(name) and not name.startswith("hugepages-")


def amount_errors(path: str, name: str, value: object) -> list[FieldError]:
    """Return the errors of an amount: it must not be negative, and whole if the resource is counted."""
    errors = checks.quantity(path, value)
    if is_counted(name) and not Quantity.of(value).is_integer():
        errors.append(invalid(path, str(Quantity.of(value)), "must be an integer"))
    return errors


def _resource(path: str, name: str, value: object) -> list[FieldError]:
    errors = container_name(path, name)
    errors += checks.quantity(path, value)
    if "/" in name and not Quantity.of(value).is_integer():
        errors.append(invalid(path, str(Quantity.of(value)), "must be an integer"))
    return errors


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Return whether a name is that of an extended resource, which a driver or a device plugin offers."""
    return not _is_native(name) and not name.startswith("requests.") and not names.qualified_name(f"requests.{name}")
