"""What the workloads have in common: a selector, a template of Pods that it must match, counts in the status.

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
    """Defaults of the Pods that a workload makes."""
    template: JSONObject = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    podspec.default(template.setdefault("spec", {}))


def default_rolling_update(strategy: JSONObject, **values: IntOrString) -> None:
    """`RollingUpdate` unless another type is given, with these parameters unless others are."""
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling: JSONObject = strategy.setdefault("rollingUpdate", {})
        for name, value in values.items():
            rolling.setdefault(name, value)


def selector_faults(selector: JSONObject | None, kind: str) -> list[FieldError]:
    """Faults of a workload's selector, which must be there and select."""
    if selector is None:
        return [required("spec.selector")]
    faults = checks.label_selector("spec.selector", selector)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        faults.append(invalid("spec.selector", selector, f"empty selector is invalid for {kind}"))
    return faults


def selected_template_faults(spec: JSONObject, kind: str, unusable: str) -> list[FieldError]:
    """Faults of a template, which is looked at only under a selector that can be used; `unusable` tells of others."""
    selector = spec.get("selector")
    if checks.label_selector("spec.selector", selector):
        return [invalid("spec.selector", selector, unusable)]
    return template_faults(spec, kind)


def template_faults(spec: JSONObject, kind: str) -> list[FieldError]:
    """Faults of a template whose Pods run for ever, and that its selector must match."""
    path, template = "spec.template", spec.get("template") or {}
    faults = match_faults(spec, template)
    faults += podspec.validate_template(path, template)
    pod = template.get("spec") or {}
    if pod.get("restartPolicy") != "Always":
        faults.append(not_supported(f"{path}.spec.restartPolicy", pod.get("restartPolicy") or "", ("Always",)))
    if pod.get("activeDeadlineSeconds") is not None:
        why = f"activeDeadlineSeconds in {kind} is not Supported"
        faults.append(forbidden(f"{path}.spec.activeDeadlineSeconds", why))
    return faults


def match_faults(spec: JSONObject, template: JSONObject) -> list[FieldError]:
    """A selector that is not there matches nothing; one that cannot be used is told of elsewhere."""
    selector = spec.get("selector")
    labels = (template.get("metadata") or {}).get("labels")
    if selector is not None and (
        checks.label_selector("", selector) or Selector.from_dict(selector).matches(labels or {})
    ):
        return []
    return [invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")]


def int_or_percent(path: str, value: IntOrString | None) -> list[FieldError]:
    """A count or a percentage, not negative."""
    if isinstance(value, str):
        return [] if _PERCENT.fullmatch(value) else [invalid(path, value, _NOT_A_PERCENT)]
    return checks.non_negative(path, value)


def at_most_all(path: str, value: IntOrString | None) -> list[FieldError]:
    """A percentage of Pods that is no more than all of them."""
    if not isinstance(value, str) or not _PERCENT.fullmatch(value) or int(value[:-1]) <= 100:
        return []
    return [invalid(path, value, "must not be greater than 100%")]


def is_zero(value: IntOrString | None) -> bool:
    if isinstance(value, str):
        return value.rstrip("%").lstrip("0") == ""
    return not value


def status_faults(status: JSONObject, *counts: str) -> list[FieldError]:
    """Counts of Pods in a status: none negative, none above `replicas`, no more available than ready."""
    faults: list[FieldError] = []
    for field in ("observedGeneration", "replicas", *counts, "unavailableReplicas", "collisionCount"):
        faults += checks.non_negative(f"status.{field}", status.get(field))
    total = status.get("replicas") or 0
    for field in counts:
        if (status.get(field) or 0) > total:
            faults.append(invalid(f"status.{field}", status.get(field) or 0, _GREATER))
    available, ready = status.get("availableReplicas") or 0, status.get("readyReplicas") or 0
    if available > ready:
        faults.append(invalid("status.availableReplicas", available, "cannot be greater than readyReplicas"))
    return faults


def collision_faults(status: JSONObject, old: JSONObject) -> list[FieldError]:
    now, before = status.get("collisionCount") or 0, old.get("collisionCount") or 0
    return [invalid("status.collisionCount", now, "cannot be decremented")] if now < before else []
