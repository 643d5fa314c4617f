"""Rows of autoscaling, in both versions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.printers.cells import NONE, UNSET, age_of, at, items, name, number, text
from kubewright_controlplane.apiserver.registry.model import Cells

_UNKNOWN = "<unknown>"
_SHOWN = 2
_SOURCES = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def _horizontal_pod_autoscaler(obj: JSONObject, now: datetime) -> list[object]:
    minimum = at(obj, "spec", "minReplicas")
    return [
        name(obj),
        f"{text(obj, 'spec', 'scaleTargetRef', 'kind')}/{text(obj, 'spec', 'scaleTargetRef', 'name')}",
        _targets(obj),
        UNSET if minimum is None else str(minimum),
        number(obj, "spec", "maxReplicas"),
        number(obj, "status", "currentReplicas"),
        age_of(obj, now),
    ]


def _targets(obj: JSONObject) -> str:
    wanted = at(obj, "spec", "targetCPUUtilizationPercentage")
    if wanted is not None:
        current = at(obj, "status", "currentCPUUtilizationPercentage")
        return f"cpu: {_UNKNOWN if current is None else f'{current}%'}/{wanted}%"
    metrics = items(obj, "spec", "metrics")
    if not metrics:
        return NONE
    statuses = items(obj, "status", "currentMetrics")
    shown = [_metric(each, statuses[index] if index < len(statuses) else {}) for index, each in enumerate(metrics)]
    text = ", ".join(shown[:_SHOWN])
    return f"{text} + {len(shown) - _SHOWN} more..." if len(shown) > _SHOWN else text


def _metric(spec: JSONObject, status: JSONObject) -> str:
    source = _SOURCES.get(text(spec, "type"))
    if source is None:
        return "<unknown type>"
    target: JSONObject = at(spec, source, "target") or {}
    current: JSONObject = at(status, source, "current") or {}
    if source in ("resource", "containerResource"):
        label = text(spec, source, "name")
        if "averageValue" in target:
            return f"{label}: {current.get('averageValue', _UNKNOWN)}/{target['averageValue']}"
        wanted = target.get("averageUtilization")
        used = current.get("averageUtilization")
        return f"{label}: {_percent(used, _UNKNOWN)}/{_percent(wanted, '<auto>')}"
    if "averageValue" in target:
        suffix = "" if source == "pods" else " (avg)"
        return f"{current.get('averageValue', _UNKNOWN)}/{target['averageValue']}{suffix}"
    return f"{current.get('value', _UNKNOWN)}/{target.get('value', '0')}"


def _percent(value: int | None, default: str) -> str:
    return default if value is None else f"{value}%"


CELLS: Final[Mapping[str, Cells]] = {"horizontalpodautoscalers": _horizontal_pod_autoscaler}
