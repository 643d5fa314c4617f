"""LimitRanges and ResourceQuotas. Follows k8s.io/kubernetes pkg/apis/core (v1/defaults.go and validation)."""

from __future__ import annotations

from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, forbidden, invalid, required
from kubewright.machinery.json import JSONObject
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.apiserver.kinds.core import resources
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy, UpsertStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes

_SCOPES: Final = frozenset({"BestEffort", "NotBestEffort", "Terminating", "NotTerminating"})
_ORDER: Final = (
    ("min", "max", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "default request value {} is greater than max value {}"),
    ("defaultRequest", "default", "defaultRequest", "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min value {} is greater than default value {}"),
    ("default", "max", "default", "default value {} is greater than max value {}"),
)
"""A pair of limits that must be in order, and the field at which an error is reported."""
_ALL_SCOPES: Final = _SCOPES | {"PriorityClass", "CrossNamespacePodAffinity", "VolumeAttributesClass"}


_OPPOSITES: Final = (frozenset({"BestEffort", "NotBestEffort"}), frozenset({"Terminating", "NotTerminating"}))
_COMPUTE: Final = frozenset({
    "pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory",
})  # fmt: skip
_SCOPED: Final = dict.fromkeys(_ALL_SCOPES, _COMPUTE) | {
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""The resources that a quota with a scope can limit."""


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
            errors += checks.named(f"{path}.type", kind, names.qualified_name)
            if kind in seen:
                errors.append(duplicate(f"{path}.type", kind))
            seen.add(kind)
            if kind == "PersistentVolumeClaim" and not _bounds_storage(item):
                why = "either minimum or maximum storage value is required, but neither was provided"
                errors.append(required(f"{path}.limits", why))
            if kind == "Pod":
                why = "may not be specified when `type` is 'Pod'"
                errors += [forbidden(f"{path}.{each}", why) for each in ("default", "defaultRequest") if item.get(each)]
            errors += _order_errors(path, item)
        return errors


class ResourceQuotaStrategy(PlainStrategy):
    delete_answers_object = True

    def default(self, obj: JSONObject) -> None:
        obj.setdefault("spec", {})

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {}

    def validate(self, obj: JSONObject) -> list[FieldError]:
        errors: list[FieldError] = []
        for name, value in (obj["spec"].get("hard") or {}).items():
            path = f"spec.hard[{name}]"
            errors += resources.quota_name(path, name)
            errors += checks.quantity(path, value)
            amount = Quantity.of(value)
            if resources.is_counted(name) and not amount.is_integer():
                errors.append(invalid(path, str(amount), "must be an integer"))
        return errors + _scope_errors(obj["spec"])

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return checks.immutable("spec.scopes", obj["spec"].get("scopes"), old["spec"].get("scopes"))


def _bounds_storage(item: JSONObject) -> bool:
    return any("storage" in (item.get(bound) or {}) for bound in ("min", "max"))


def _scope_errors(spec: JSONObject) -> list[FieldError]:
    """Reject scopes that the server would not evaluate, and scope selectors."""
    scopes = spec.get("scopes") or []
    limited = sorted(filter(resources.is_standard_for_quota, spec.get("hard") or {}))
    errors: list[FieldError] = []
    for scope in scopes:
        if scope not in _ALL_SCOPES:
            errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
        unfit = [name for name in limited if name not in _SCOPED.get(scope, limited)]
        errors += [invalid("spec.scopes", scopes, "unsupported scope applied to resource") for _ in unfit]
    for pair in _OPPOSITES:
        if pair.issubset(scopes):
            errors.append(invalid("spec.scopes", scopes, "conflicting scopes"))
    why = "not supported yet by the embedded API server"
    errors += [forbidden("spec.scopes", f"{each} is {why}") for each in scopes if each in _ALL_SCOPES - _SCOPES]
    if spec.get("scopeSelector"):
        errors.append(forbidden("spec.scopeSelector", why))
    return errors


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
