"""LimitRanges and ResourceQuotas. Follows k8s.io/kubernetes pkg/apis/core (v1/defaults.go and validation)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, forbidden, invalid, required, too_many
from kubewright.machinery.json import JSONObject
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.apiserver.kinds.core import resources
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy, UpsertStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes

_ORDER: Final = (
    ("min", "max", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "default request value {} is greater than max value {}"),
    ("defaultRequest", "default", "defaultRequest", "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min value {} is greater than default value {}"),
    ("default", "max", "default", "default value {} is greater than max value {}"),
)
"""A pair of limits that must be in order, and the field at which an error is reported."""
_TYPES: Final = frozenset({"Pod", "Container", "PersistentVolumeClaim"})
_DEFAULTS: Final = ("default", "defaultRequest")
_BOUNDS: Final = ("max", "min", *_DEFAULTS, "maxLimitRequestRatio")
_LARGEST_MILLI: Final = (2**63 - 1) // 1000
"""Larger amounts are compared as whole numbers."""
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
_MOST_AMOUNTS: Final = 4096
"""The number of resources that a quota or an entry of a LimitRange can limit. Every new Pod is compared with them."""
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
            errors += _type_errors(f"{path}.type", kind)
            if kind in seen:
                errors.append(duplicate(f"{path}.type", kind))
            seen.add(kind)
            errors += _item_errors(path, kind, item)
        return errors


class ResourceQuotaStrategy(PlainStrategy):
    delete_answers_object = True

    def default(self, obj: JSONObject) -> None:
        obj.setdefault("spec", {})

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {}

    def validate(self, obj: JSONObject) -> list[FieldError]:
        errors = _amount_errors("spec.hard", obj["spec"].get("hard") or {})
        return errors + _scope_errors(obj["spec"]) + _selector_errors(obj["spec"])

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return checks.immutable("spec.scopes", obj["spec"].get("scopes"), old["spec"].get("scopes"))

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        status: JSONObject = obj.get("status") or {}
        errors = _amount_errors("status.hard", status.get("hard") or {})
        return errors + _amount_errors("status.used", status.get("used") or {})


def _amount_errors(path: str, amounts: JSONObject) -> list[FieldError]:
    if len(amounts) > _MOST_AMOUNTS:
        return [too_many(path, len(amounts), _MOST_AMOUNTS)]
    errors: list[FieldError] = []
    for name, value in amounts.items():
        at = f"{path}[{name}]"
        errors += resources.quota_name(at, name)
        errors += checks.quantity(at, value)
        amount = Quantity.of(value)
        if resources.is_counted(name) and not amount.is_integer():
            errors.append(invalid(at, str(amount), "must be an integer"))
    return errors


def _type_errors(path: str, kind: str) -> list[FieldError]:
    errors = checks.named(path, kind, names.qualified_name)
    if not errors and "/" not in kind and kind not in _TYPES:
        errors.append(invalid(path, kind, "must be a standard limit type or fully qualified"))
    return errors


def _item_errors(path: str, kind: str, item: JSONObject) -> list[FieldError]:
    for bound in _BOUNDS:
        if len(item.get(bound) or ()) > _MOST_AMOUNTS:
            return [too_many(f"{path}.{bound}", len(item[bound]), _MOST_AMOUNTS)]
    errors = _name_errors(path, kind, item, "max", "min")
    if kind == "Pod":
        why = "may not be specified when `type` is 'Pod'"
        errors += [forbidden(f"{path}.{each}", why) for each in _DEFAULTS if item.get(each)]
    else:
        errors += _name_errors(path, kind, item, *_DEFAULTS)
    if kind == "PersistentVolumeClaim" and not _bounds_storage(item):
        why = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{path}.limits", why))
    errors += _name_errors(path, kind, item, "maxLimitRequestRatio")
    return errors + _order_errors(path, {key: item[key] for key in item if kind != "Pod" or key not in _DEFAULTS})


def _name_errors(path: str, kind: str, item: JSONObject, *bounds: str) -> list[FieldError]:
    """Return the errors of the names of resources in these fields."""
    check = resources.container_name if kind in ("Pod", "Container") else resources.resource_name
    errors: list[FieldError] = []
    for bound in bounds:
        for name in item.get(bound) or ():
            errors += check(f"{path}.{bound}[{name}]", name)
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
    bounded = dict.fromkeys(name for bound in _BOUNDS for name in item.get(bound) or ())
    for name in bounded:
        amounts = {bound: Quantity.of(item[bound][name]) for bound in _BOUNDS if name in (item.get(bound) or {})}
        for low, high, at, why in _ORDER:
            if low in amounts and high in amounts and amounts[low] > amounts[high]:
                shown = at if at == "defaultRequest" else low if low == "min" else high
                detail = why.format(amounts[low], amounts[high])
                errors.append(invalid(f"{path}.{at}[{name}]", str(amounts[shown]), detail))
        errors += _ratio_errors(f"{path}.maxLimitRequestRatio[{name}]", amounts)
        if not resources.may_overcommit(name) and set(_DEFAULTS) <= amounts.keys():
            limit, request = amounts["default"], amounts["defaultRequest"]
            if limit != request:
                why = f"default value {limit} must equal to defaultRequest value {request} in {name}"
                errors.append(invalid(f"{path}.defaultRequest[{name}]", str(request), why))
    return errors


def _ratio_errors(path: str, amounts: Mapping[str, Quantity]) -> list[FieldError]:
    """Return the errors of the largest ratio of a limit to a request."""
    ratio, least, most = (amounts.get(bound) for bound in ("maxLimitRequestRatio", "min", "max"))
    errors: list[FieldError] = []
    if ratio is None:
        return errors
    if ratio < Quantity.from_int(1):
        errors.append(invalid(path, str(ratio), f"ratio {ratio} is less than 1"))
    if least is not None and most is not None:
        fits = all(each.value < _LARGEST_MILLI for each in (ratio, least, most))
        low, high = (each.milli_value if fits else each.value for each in (least, most))
        limit = _quotient(high, low)
        if (ratio.milli_value / 1000 if fits else float(ratio.value)) > limit:
            shown = {math.inf: "+Inf", -math.inf: "-Inf"}.get(limit, f"{limit:f}")
            errors.append(invalid(path, str(ratio), f"ratio {ratio} is greater than max/min = {shown}"))
    return errors


def _quotient(most: int, least: int) -> float:
    """Divide as Go does, where a division by zero is infinite or not a number."""
    if not least:
        return math.copysign(math.inf, most) if most else math.nan
    return most / least
