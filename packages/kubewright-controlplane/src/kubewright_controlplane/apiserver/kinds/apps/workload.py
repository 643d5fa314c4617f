"""The common parts of workloads: a selector, a Pod template that matches it, and Pod counts in the status.

Follows k8s.io/kubernetes pkg/apis/apps/validation.
"""

from __future__ import annotations

import re
from typing import Final

from kubewright.machinery.fields import FieldError, forbidden, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright.machinery.selectors import Selector
from kubewright_controlplane.apiserver.kinds.core import podspec
from kubewright_controlplane.apiserver.registry import checks

IntOrString = int | str

_PERCENT: Final = re.compile("[0-9]+%")
_NOT_A_PERCENT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
_GREATER: Final = "cannot be greater than status.replicas"


def default_template(spec: JSONObject) -> None:
    """Set the defaults of a workload's Pods."""
    template: JSONObject = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    podspec.default(template.setdefault("spec", {}))


def default_rolling_update(strategy: JSONObject, **values: IntOrString) -> None:
    """Set the default type `RollingUpdate`, and defaults of its parameters."""
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling: JSONObject = strategy.setdefault("rollingUpdate", {})
        for name, value in values.items():
            rolling.setdefault(name, value)


def selector_errors(selector: JSONObject | None, kind: str) -> list[FieldError]:
    """Return the errors of a workload's selector, which must be present and not empty."""
    if selector is None:
        return [required("spec.selector")]
    errors = checks.label_selector("spec.selector", selector)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.append(invalid("spec.selector", selector, f"empty selector is invalid for {kind}"))
    return errors


def selected_template_errors(spec: JSONObject, kind: str, unusable: str) -> list[FieldError]:
    """Return the errors of a template. It is only checked if the selector is valid; `unusable` are the selector's
    errors.
    """
    selector = spec.get("selector")
    if checks.label_selector("spec.selector", selector):
        return [invalid("spec.selector", selector, unusable)]
    return template_errors(spec, kind)


def template_errors(spec: JSONObject, kind: str) -> list[FieldError]:
    """Return the errors of a template whose Pods restart always, and which its selector must match."""
    path, template = "spec.template", spec.get("template") or {}
    errors = match_errors(spec, template)
    errors += podspec.validate_template(path, template)
    pod = template.get("spec") or {}
    if pod.get("restartPolicy") != "Always":
        errors.append(not_supported(f"{path}.spec.restartPolicy", pod.get("restartPolicy") or "", ("Always",)))
    if pod.get("activeDeadlineSeconds") is not None:
        why = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden(f"{path}.spec.activeDeadlineSeconds", why))
    return errors


def match_errors(spec: JSONObject, template: JSONObject) -> list[FieldError]:
    """Return the errors of a selector that does not match the template. Invalid selectors are reported elsewhere."""
    selector = spec.get("selector")
    labels = (template.get("metadata") or {}).get("labels")
    if selector is not None and (
        checks.label_selector("", selector) or Selector.from_dict(selector).matches(labels or {})
    ):
        return []
    return [invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")]


def int_or_percent(path: str, value: IntOrString | None) -> list[FieldError]:
    """Return the errors of a count or percentage, which must not be negative."""
    if isinstance(value, str):
        return [] if _PERCENT.fullmatch(value) else [invalid(path, value, _NOT_A_PERCENT)]
    return checks.non_negative(path, value)


def at_most_all(path: str, value: IntOrString | None) -> list[FieldError]:
    """Return the errors of a percentage of Pods, which must not exceed 100 %."""
    if not isinstance(value, str) or not _PERCENT.fullmatch(value):
        return []
    digits = value[:-1].lstrip("0")
    if len(digits) < 3 or digits == "100":
        return []
    return [invalid(path, value, "must not be greater than 100%")]


def is_zero(value: IntOrString | None) -> bool:
    if isinstance(value, str):
        return value.rstrip("%").lstrip("0") == ""
    return not value


def status_errors(status: JSONObject, *counts: str) -> list[FieldError]:
    """Return the errors of Pod counts in a status: none is negative or above `replicas`, and available is at most
    ready.
    """
    errors: list[FieldError] = []
    for field in (
        "observedGeneration",
        "replicas",
        *counts,
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ):
        errors += checks.non_negative(f"status.{field}", status.get(field))
    total = status.get("replicas") or 0
    for field in counts:
        if (status.get(field) or 0) > total:
            errors.append(invalid(f"status.{field}", status.get(field) or 0, _GREATER))
    available, ready = status.get("availableReplicas") or 0, status.get("readyReplicas") or 0
    if available > ready:
        errors.append(invalid("status.availableReplicas", available, "cannot be greater than readyReplicas"))
    return errors


def collision_errors(status: JSONObject, old: JSONObject) -> list[FieldError]:
    now, before = status.get("collisionCount") or 0, old.get("collisionCount") or 0
    return [invalid("status.collisionCount", now, "cannot be decremented")] if now < before else []
