"""Metrics and scaling behavior of HorizontalPodAutoscalers: their errors and defaults.

Follows k8s.io/kubernetes pkg/apis/autoscaling (v2/defaults.go, validation).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, forbidden, invalid, not_supported, required
from kubewright.machinery.json import JSONArray, JSONObject
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.apiserver.kinds.core import resources
from kubewright_controlplane.apiserver.registry import checks

_SOURCES: Final = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
"""The field of each type of metric."""
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_SELECT: Final = ("Disabled", "Max", "Min")
_POLICIES: Final = ("Percent", "Pods")
_LONGEST_PERIOD: Final = 1800
_LONGEST_WINDOW: Final = 3600
_PERCENT: Final = {"type": "Percent", "value": 100, "periodSeconds": 15}
_PODS: Final = {"type": "Pods", "value": 4, "periodSeconds": 15}


def default_behavior(behavior: JSONObject) -> None:
    """Set the unset rules of a scaling behavior."""
    up = {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [dict(_PODS), dict(_PERCENT)]}
    down = {"selectPolicy": "Max", "policies": [dict(_PERCENT)]}
    for field, rules in (("scaleUp", up), ("scaleDown", down)):
        given = behavior.get(field) or {}
        behavior[field] = rules | {key: value for key, value in given.items() if value is not None}


def behavior_errors(path: str, behavior: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("scaleUp", "scaleDown"):
        rules: JSONObject | None = behavior.get(field)
        if rules is not None:
            errors += _rule_errors(f"{path}.{field}", rules)
    return errors


def _rule_errors(path: str, rules: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    window, select = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy")
    at = f"{path}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        errors.append(invalid(at, window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW:
        errors.append(invalid(at, window, f"must be less than or equal to {_LONGEST_WINDOW}"))
    if select is not None and select not in _SELECT:
        errors.append(not_supported(f"{path}.selectPolicy", select, _SELECT))
    policies: JSONArray = rules.get("policies") or []
    if not policies:
        errors.append(required(f"{path}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        errors += _policy_errors(f"{path}.policies[{index}]", policy)
    if rules.get("tolerance") is not None:
        errors += checks.quantity(f"{path}.tolerance", rules["tolerance"])
    return errors


def _policy_errors(path: str, policy: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    kind, value, period = policy.get("type") or "", policy.get("value") or 0, policy.get("periodSeconds") or 0
    if kind not in _POLICIES:
        errors.append(not_supported(f"{path}.type", kind, _POLICIES))
    if value <= 0:
        errors.append(invalid(f"{path}.value", value, checks.NOT_POSITIVE))
    if period <= 0:
        errors.append(invalid(f"{path}.periodSeconds", period, checks.NOT_POSITIVE))
    if period > _LONGEST_PERIOD:
        errors.append(invalid(f"{path}.periodSeconds", period, f"must be less than or equal to {_LONGEST_PERIOD}"))
    return errors


def metric_errors(path: str, metrics: JSONArray, *, check_versions: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, metric in enumerate(metrics):
        errors += _metric_errors(f"{path}[{index}]", metric, check_version=check_versions)
    return errors


def _metric_errors(path: str, metric: JSONObject, *, check_version: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    kind = metric.get("type") or ""
    unsupported = not_supported(f"{path}.type", kind, sorted(_SOURCES))
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric source type"))
    if kind not in _SOURCES:
        errors.append(unsupported)
    present = [field for field in _SOURCES.values() if metric.get(field) is not None]
    if present:
        first, source = f"{path}.{present[0]}", metric[present[0]]
        if present[0] == "object":
            described = source.get("describedObject") or {}
            errors += reference_errors(f"{first}.describedObject", described, check_version=check_version)
        errors += _SOURCE_ERRORS[present[0]](first, source)
    expected = _SOURCES.get(kind)
    if expected is None:
        errors.append(unsupported)
    elif expected not in present:
        errors.append(required(f"{path}.{expected}", "must populate information for the given metric source"))
    if len(present) > 1:
        others = (each for each in present if each != expected)
        errors += [forbidden(f"{path}.{each}", "must populate the given metric source only") for each in others]
    return errors


def _object_errors(path: str, source: JSONObject) -> list[FieldError]:
    errors = _identified_errors(path, source)
    target = source.get("target") or {}
    if target.get("value") is None and target.get("averageValue") is None:
        errors.append(required(f"{path}.target.averageValue", "must set either a target value or averageValue"))
    return errors


def _external_errors(path: str, source: JSONObject) -> list[FieldError]:
    errors = _identified_errors(path, source)
    target = source.get("target") or {}
    one, each = target.get("value") is not None, target.get("averageValue") is not None
    if not one and not each:
        why = "must set either a target value for metric or a per-pod target"
        errors.append(required(f"{path}.target.averageValue", why))
    if one and each:
        why = "may not set both a target value for metric and a per-pod target"
        errors.append(forbidden(f"{path}.target.value", why))
    return errors


def _pods_errors(path: str, source: JSONObject) -> list[FieldError]:
    errors = _identified_errors(path, source)
    if (source.get("target") or {}).get("averageValue") is None:
        errors.append(required(f"{path}.target.averageValue", "must specify a positive target averageValue"))
    return errors


def _identified_errors(path: str, source: JSONObject) -> list[FieldError]:
    """Return the errors of a metric that has a name of its own, and of its target."""
    name = (source.get("metric") or {}).get("name")
    at = f"{path}.metric.name"
    errors = checks.named(at, name, names.path_segment) if name else [required(at, "must specify a metric name")]
    return errors + _target_errors(f"{path}.target", source.get("target") or {})


def _resource_errors(path: str, source: JSONObject) -> list[FieldError]:
    if not source.get("name"):
        return [required(f"{path}.name", "must specify a resource name"), *_usage_errors(path, source)]
    return _usage_errors(path, source)


def _container_resource_errors(path: str, source: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    name, container = source.get("name"), source.get("container")
    if not name:
        errors.append(required(f"{path}.name", "must specify a resource name"))
    else:
        errors += resources.container_name(f"{path}.name", name)
    if not container:
        errors.append(required(f"{path}.container", "must specify a container"))
    else:
        errors += checks.named(f"{path}.container", container, names.dns1123_label)
    return errors + _usage_errors(path, source)


def _usage_errors(path: str, source: JSONObject) -> list[FieldError]:
    """Return the errors of the target of a resource: a share of what is requested, or an amount."""
    target = source.get("target") or {}
    errors = _target_errors(f"{path}.target", target)
    share, amount = target.get("averageUtilization") is not None, target.get("averageValue") is not None
    if not share and not amount:
        why = "must set either a target raw value or a target utilization"
        errors.append(required(f"{path}.target.averageUtilization", why))
    if share and amount:
        why = "may not set both a target raw value and a target utilization"
        errors.append(forbidden(f"{path}.target.averageValue", why))
    return errors


_SOURCE_ERRORS: Final[dict[str, Callable[[str, JSONObject], list[FieldError]]]] = {
    "object": _object_errors,
    "external": _external_errors,
    "pods": _pods_errors,
    "resource": _resource_errors,
    "containerResource": _container_resource_errors,
}


def _target_errors(path: str, target: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    kind = target.get("type") or ""
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric target type"))
    if kind not in _TARGETS:
        errors.append(invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    amounts = {
        field: Quantity.of(target[field]) for field in ("value", "averageValue") if target.get(field) is not None
    }
    wrong = {field: amount for field, amount in amounts.items() if amount <= Quantity(0)}
    errors += [invalid(f"{path}.{field}", str(amount), "must be positive") for field, amount in wrong.items()]
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        errors.append(invalid(f"{path}.averageUtilization", share, "must be greater than 0"))
    return errors


def reference_errors(
    path: str, reference: JSONObject, *, check_version: bool, needs_group: bool = False
) -> list[FieldError]:
    """Return the errors of a CrossVersionObjectReference."""
    errors: list[FieldError] = []
    for field in ("kind", "name"):
        errors += checks.required_name(f"{path}.{field}", reference.get(field), names.path_segment)
    version = reference.get("apiVersion") or ""
    if check_version and (why := version_fault(version, needs_group=needs_group)):
        errors.append(invalid(f"{path}.apiVersion", version, why))
    return errors


def version_fault(version: str, *, needs_group: bool) -> str:
    """Return why an apiVersion is not valid; empty if it is."""
    if version.count("/") > 1:
        return f"unexpected GroupVersion string: {version}"
    if needs_group and ("/" not in version or version.startswith("/")):
        return "apiVersion must specify API group"
    return ""
