"""DaemonSets. Follows k8s.io/kubernetes pkg/registry/apps/daemonset and pkg/apis/apps."""

from __future__ import annotations

from kubewright.apiserver.registry import checks
from kubewright.apiserver.registry.apps import workload
from kubewright.apiserver.registry.strategy import Strategy
from kubewright.machinery.fields import FieldError, invalid, not_supported, required
from kubewright.machinery.json import JSONObject

_COUNTS = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")


class DaemonSetStrategy(Strategy):
    def default(self, obj: JSONObject) -> None:
        spec: JSONObject = obj.setdefault("spec", {})
        workload.default_rolling_update(spec.setdefault("updateStrategy", {}), maxUnavailable=1, maxSurge=0)
        spec.setdefault("revisionHistoryLimit", 10)
        workload.default_template(spec)
        status = obj.setdefault("status", {})
        for count in _COUNTS:
            status.setdefault(count, 0)

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec = obj["spec"]
        faults = workload.selector_faults(spec.get("selector"), "daemonset")
        faults += workload.template_faults(spec, "DaemonSet")
        for field in ("minReadySeconds", "revisionHistoryLimit"):
            faults += checks.non_negative(f"spec.{field}", spec.get(field))
        return faults + _strategy_faults(spec.get("updateStrategy") or {})

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return checks.immutable("spec.selector", obj["spec"].get("selector"), old["spec"].get("selector"))

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        faults: list[FieldError] = []
        for field in (*_COUNTS, "observedGeneration", "updatedNumberScheduled", "numberAvailable"):
            faults += checks.non_negative(f"status.{field}", (obj.get("status") or {}).get(field))
        return faults


def _strategy_faults(strategy: JSONObject) -> list[FieldError]:
    kind, path = strategy.get("type"), "spec.updateStrategy.rollingUpdate"
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        return [not_supported("spec.updateStrategy", strategy, ("RollingUpdate", "OnDelete"))]
    rolling = strategy.get("rollingUpdate") or {}
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    faults = workload.int_or_percent(f"{path}.maxUnavailable", unavailable)
    faults += workload.int_or_percent(f"{path}.maxSurge", surge)
    if not workload.is_zero(unavailable) and not workload.is_zero(surge):
        faults.append(invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    if workload.is_zero(unavailable) and workload.is_zero(surge):
        faults.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return faults
