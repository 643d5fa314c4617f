"""Strategies of autoscaling: HorizontalPodAutoscalers, stored as v2 and also served as v1.

The parts of v2 that v1 has no fields for are kept in annotations of the v1 form. Follows k8s.io/kubernetes
pkg/registry/autoscaling and pkg/apis/autoscaling (v1/conversion.go, validation).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from kubewright.machinery.errors import DecodeError
from kubewright.machinery.fields import FieldError, forbidden, invalid, required
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.autoscalermetrics import (
    behavior_errors,
    default_behavior,
    metric_errors,
    reference_errors,
    version_fault,
)
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Conversion, Strategy, VersionedPlural
from kubewright_controlplane.apiserver.registry.views import document_schema

_KIND: Final = GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler")
_PLURAL: Final = "horizontalpodautoscalers"
_DEFAULT_UTILIZATION: Final = 80
_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_IN_SPEC: Final = ("metrics", "behavior")
_IN_STATUS: Final = (("currentMetrics", "current-metrics"), ("conditions", "conditions"))


def to_v2(v1: JSONObject) -> JSONObject:
    """Convert an `autoscaling/v1` autoscaler to `autoscaling/v2`."""
    annotations = dict(v1["metadata"].get("annotations") or {})
    spec, status = dict(v1.get("spec") or {}), dict(v1.get("status") or {})
    for field in _IN_SPEC:
        spec |= _restored("spec", field, annotations.pop(f"{_PREFIX}{field}", None))
    for field, key in _IN_STATUS:
        status |= _restored("status", field, annotations.pop(f"{_PREFIX}{key}", None))
    utilization = spec.pop("targetCPUUtilizationPercentage", None)
    if utilization is not None:
        spec["metrics"] = [*(spec.get("metrics") or ()), _cpu_metric(utilization)]
    current = status.pop("currentCPUUtilizationPercentage", None)
    if current is not None:
        metric = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": current}}}
        status["currentMetrics"] = [metric, *(status.get("currentMetrics") or ())]
    if status:
        status.setdefault("currentMetrics", None)
    if not status.get("currentReplicas"):
        status.pop("currentReplicas", None)
    return _assembled("autoscaling/v2", v1, annotations, spec, status)


def _restored(part: str, field: str, text: str | None) -> JSONObject:
    """Return a field that an annotation contains. An invalid text is ignored, as by a real server."""
    if text is None:
        return {}
    try:
        document: JSONObject = {part: {field: json.loads(text)}}
        document_schema(_KIND).prune(document)
    except (ValueError, RecursionError, DecodeError):
        return {}
    kept: JSONObject = document[part]
    return kept


def to_v1(v2: JSONObject) -> JSONObject:
    """Convert an `autoscaling/v2` autoscaler to `autoscaling/v1`."""
    annotations = dict(v2["metadata"].get("annotations") or {})
    spec, status = dict(v2.get("spec") or {}), dict(v2.get("status") or {})
    metrics: list[JSONObject] = spec.pop("metrics", None) or []
    cpu = next((each for each in metrics if _is_cpu_utilization(each)), None)
    if cpu is not None:
        spec["targetCPUUtilizationPercentage"] = cpu["resource"]["target"]["averageUtilization"]
    _keep(annotations, "metrics", [each for each in metrics if each is not cpu])
    _keep(annotations, "behavior", spec.pop("behavior", None))
    for field, key in _IN_STATUS:
        _keep(annotations, key, status.pop(field, None))
    status.setdefault("currentReplicas", 0)
    return _assembled("autoscaling/v1", v2, annotations, spec, status)


CONVERSIONS: Final[Mapping[VersionedPlural, Conversion]] = {
    ("v1", _PLURAL): Conversion(f"{_PLURAL}.autoscaling", "autoscaling/v2", to_v2, to_v1)
}


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {_PLURAL: AutoscalerStrategy()}


class AutoscalerStrategy(PlainStrategy):
    """Both versions. Each field is read where its version has it."""

    def default(self, obj: JSONObject) -> None:
        spec: JSONObject = obj.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        if obj.get("apiVersion") == "autoscaling/v1" or "targetCPUUtilizationPercentage" in spec:
            has_metrics = f"{_PREFIX}metrics" in ((obj.get("metadata") or {}).get("annotations") or {})
            if not has_metrics:
                spec.setdefault("targetCPUUtilizationPercentage", _DEFAULT_UTILIZATION)
            return
        if not spec.get("metrics"):
            spec["metrics"] = [_cpu_metric(_DEFAULT_UTILIZATION)]
        if spec.get("behavior") is not None:
            default_behavior(spec["behavior"])

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        newer = {"desiredReplicas": 0, "currentMetrics": None}
        older = {"currentReplicas": 0, "desiredReplicas": 0}
        obj["status"] = newer if attributes.resource.version == "v2" else older

    def validate_create(self, obj: JSONObject) -> list[FieldError]:
        return _errors(_as_v2(obj), None)

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return _errors(_as_v2(obj), _as_v2(old))

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        status, errors = obj.get("status") or {}, list[FieldError]()
        for field in ("currentReplicas", "desiredReplicas"):
            errors += checks.non_negative(f"status.{field}", status.get(field))
        return errors


def _as_v2(obj: JSONObject) -> JSONObject:
    return to_v2(obj) if obj.get("apiVersion") == "autoscaling/v1" else obj


def _errors(obj: JSONObject, old: JSONObject | None) -> list[FieldError]:
    spec: JSONObject = obj["spec"]
    before: JSONObject = (old or {}).get("spec") or {}
    errors = _replica_errors(spec, 0 if before.get("minReplicas") == 0 else 1)
    errors += _target_errors("spec.scaleTargetRef", spec.get("scaleTargetRef") or {}, before.get("scaleTargetRef"))
    metrics = spec.get("metrics") or []
    errors += metric_errors("spec.metrics", metrics, check_versions=not _has_invalid_version(before))
    if spec.get("minReplicas") == 0 and not any(each.get("type") in ("Object", "External") for each in metrics):
        why = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden("spec.metrics", why))
    return errors + behavior_errors("spec.behavior", spec.get("behavior") or {})


def _replica_errors(spec: JSONObject, lowest: int) -> list[FieldError]:
    low, high = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    errors: list[FieldError] = []
    if low is not None and low < lowest:
        errors.append(invalid("spec.minReplicas", low, f"must be greater than or equal to {lowest}"))
    if high == 0:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif high < 0:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than or equal to 1"))
    if low is not None and high < low:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`"))
    return errors


def _target_errors(path: str, target: JSONObject, before: JSONObject | None) -> list[FieldError]:
    """Return the errors of the target. An apiVersion that was invalid before may remain so."""
    fields = ("apiVersion", "kind")
    kept = before is not None and all((target.get(each) or "") == (before.get(each) or "") for each in fields)
    needs_group = target.get("kind") != "ReplicationController"
    return reference_errors(path, target, check_version=not kept, needs_group=needs_group)


def _has_invalid_version(spec: JSONObject) -> bool:
    """Return whether a metric describes an object with an apiVersion that is not valid."""
    sources = (each.get("object") or {} for each in spec.get("metrics") or () if each.get("type") == "Object")
    versions = ((each.get("describedObject") or {}).get("apiVersion") or "" for each in sources)
    return any(version_fault(version, needs_group=False) for version in versions)


def _cpu_metric(utilization: int) -> JSONObject:
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _is_cpu_utilization(metric: JSONObject) -> bool:
    resource = metric.get("resource") or {}
    return resource.get("name") == "cpu" and (resource.get("target") or {}).get("averageUtilization") is not None


def _keep(annotations: dict[str, str], key: str, value: Any) -> None:
    if value:
        annotations[f"{_PREFIX}{key}"] = json.dumps(value, separators=(",", ":"))


def _assembled(
    api_version: str, obj: JSONObject, annotations: JSONObject, spec: JSONObject, status: JSONObject
) -> JSONObject:  # fmt: skip
    metadata = {key: value for key, value in obj["metadata"].items() if key != "annotations"}
    if annotations:
        metadata["annotations"] = annotations
    out = {"kind": "HorizontalPodAutoscaler", "apiVersion": api_version, "metadata": metadata, "spec": spec}
    return {**out, "status": status} if status else out
