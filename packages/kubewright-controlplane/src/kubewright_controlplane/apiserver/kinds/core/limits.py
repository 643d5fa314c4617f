"""LimitRanges and ResourceQuotas. Follows k8s.io/kubernetes pkg/apis/core (v1/defaults.go and validation)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, forbidden, invalid, required
from kubewright.machinery.json import JSONObject
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.apiserver.kinds.core import resources
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy, UpsertStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes

_LIMIT_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_ORDER: Final = (
    ("min", "max", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "default request value {} is greater than max value {}"),
    ("defaultRequest", "default", "defaultRequest", "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min value {} is greater than default value {}"),
    ("default", "max", "default", "default value {} is greater than max value {}"),
)
"""A pair of limits that must be in order, and the field at which an error is reported."""
_OPPOSITES: Final = (frozenset({"BestEffort", "NotBestEffort"}), frozenset({"Terminating", "NotTerminating"}))
_COMPUTE: Final = frozenset({
    "pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory",
})  # fmt: skip
_ONLY_EXIST: Final = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity")
_SCOPED: Final = dict.fromkeys((*_ONLY_EXIST, "PriorityClass"), _COMPUTE) | {
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""The resources that a quota with a scope can limit."""
_UNFIT: Final = "unsupported scope applied to resource"
_MUST_EXIST: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


class LimitRangeStrategy(UpsertStrategy):
    def default(self, obj: JSONObject) -> None:
        for item in (obj.get("spec") or {}).get("limits") or ():
            if item.get("type") == "Container":
                limits = {**(item.get("max") or {}), **(item.get("default") or {})}
                requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
                if limits:
                    item["default"] = limits
                if requests:
                    item["defaultRequest"] = requests

    def validate(self, obj: JSONObject) -> list[FieldError]:
        errors: list[FieldError] = []
        seen: set[str] = set()
        for index, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
            path, kind = f"spec.limits[{index}]", item.get("type") or ""
            unqualified = checks.named(f"{path}.type", kind, names.qualified_name)
            errors += unqualified
            if not unqualified and "/" not in kind and kind not in _LIMIT_TYPES:
                errors.append(invalid(f"{path}.type", kind, "must be a standard limit type or fully qualified"))
            if kind in seen:
                errors.append(duplicate(f"{path}.type", kind))
            seen.add(kind)
            if kind == "PersistentVolumeClaim" and not _bounds_storage(item):
                why = "either minimum or maximum storage value is required, but neither was provided"
                errors.append(required(f"{path}.limits", why))
            if kind == "Pod":
                why = "may not be specified when `type` is 'Pod'"
                errors += [forbidden(f"{path}.{each}", why) for each in ("default", "defaultRequest") if item.get(each)]
            errors += _order_errors(path, item) + _ratio_errors(f"{path}.maxLimitRequestRatio", item)
        return errors


class ResourceQuotaStrategy(PlainStrategy):
    delete_answers_object = True

    def default(self, obj: JSONObject) -> None:
        obj.setdefault("spec", {})

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {}

    def validate(self, obj: JSONObject) -> list[FieldError]:
        errors: list[FieldError] = []
        errors += _amount_errors("spec.hard", obj["spec"].get("hard") or {})
        return errors + _scope_errors(obj["spec"]) + _selector_errors(obj["spec"])

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return checks.immutable("spec.scopes", obj["spec"].get("scopes"), old["spec"].get("scopes"))

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        status: JSONObject = obj.get("status") or {}
        errors = _amount_errors("status.hard", status.get("hard") or {})
        return errors + _amount_errors("status.used", status.get("used") or {})


def _amount_errors(path: str, amounts: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, value in amounts.items():
        at = f"{path}[{name}]"
        errors += resources.quota_name(at, name)
        errors += checks.quantity(at, value)
        amount = Quantity.of(value)
        if resources.is_counted(name) and not amount.is_integer():
            errors.append(invalid(at, str(amount), "must be an integer"))
    return errors


def _ratio_errors(path: str, item: JSONObject) -> list[FieldError]:
    """Return the errors of the ratios of limit to request, which must be possible between minimum and maximum."""
    least, most = item.get("min") or {}, item.get("max") or {}
    errors: list[FieldError] = []
    for name, value in (item.get("maxLimitRequestRatio") or {}).items():
        ratio, at = Quantity.of(value), f"{path}[{name}]"
        if ratio < Quantity.from_int(1):
            errors.append(invalid(at, str(ratio), f"ratio {ratio} is less than 1"))
        if name in least and name in most and (low := float(Quantity.of(least[name]))):
            limit = float(Quantity.of(most[name])) / low
            if float(ratio) > limit:
                errors.append(invalid(at, str(ratio), f"ratio {ratio} is greater than max/min = {limit:.6f}"))
    return errors


def _bounds_storage(item: JSONObject) -> bool:
    return any("storage" in (item.get(bound) or {}) for bound in ("min", "max"))


def _scope_errors(spec: JSONObject) -> list[FieldError]:
    scopes = spec.get("scopes") or []
    errors: list[FieldError] = []
    for scope in scopes:
        if scope not in _SCOPED:
            errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
        errors += [invalid("spec.scopes", scopes, _UNFIT) for _ in _unfit(spec, scope)]
    return errors + _conflicts(scopes, scopes)


def _selector_errors(spec: JSONObject) -> list[FieldError]:
    selector: JSONObject = spec.get("scopeSelector") or {}
    path = "spec.scopeSelector.matchExpressions"
    requirements: list[JSONObject] = selector.get("matchExpressions") or []
    errors: list[FieldError] = []
    for each in requirements:
        scope, operator, values = each.get("scopeName") or "", each.get("operator") or "", each.get("values") or []
        if scope not in _SCOPED:
            errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        errors += [invalid(path, selector, _UNFIT) for _ in _unfit(spec, scope)]
        if scope in _ONLY_EXIST and operator != "Exists":
            errors.append(invalid(f"{path}.operator", operator, _MUST_EXIST))
        if operator in ("In", "NotIn"):
            if not values:
                why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                errors.append(required(f"{path}.values", why))
        elif operator not in ("Exists", "DoesNotExist"):
            errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
        elif values:
            why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errors.append(invalid(f"{path}.values", values, why))
    return errors + _conflicts(spec.get("scopes"), [each.get("scopeName") for each in requirements])


def _unfit(spec: JSONObject, scope: str) -> list[str]:
    """Return the limited resources that a quota with a scope cannot limit."""
    limited = sorted(filter(resources.is_standard_for_quota, spec.get("hard") or {}))
    return [name for name in limited if name not in _SCOPED.get(scope, limited)]


def _conflicts(shown: object, scopes: Iterable[object]) -> list[FieldError]:
    return [invalid("spec.scopes", shown, "conflicting scopes") for pair in _OPPOSITES if pair.issubset(scopes)]


def _order_errors(path: str, item: JSONObject) -> list[FieldError]:
    """Return the errors of a resource's minimum, default request, default and maximum, which must be in this order."""
    errors: list[FieldError] = []
    bounded = dict.fromkeys(
        name for bound in ("max", "min", "default", "defaultRequest") for name in item.get(bound) or ()
    )
    for name in bounded:
        for low, high, at, why in _ORDER:
            least, most = (item.get(low) or {}).get(name), (item.get(high) or {}).get(name)
            if least is not None and most is not None and Quantity.of(least) > Quantity.of(most):
                shown = item["defaultRequest"][name] if at == "defaultRequest" else least if low == "min" else most
                errors.append(invalid(f"{path}.{at}[{name}]", str(shown), why.format(least, most)))
    return errors
