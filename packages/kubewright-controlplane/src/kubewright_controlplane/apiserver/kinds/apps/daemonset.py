"""DaemonSets. Follows k8s.io/kubernetes pkg/registry/apps/daemonset and pkg/apis/apps."""

from __future__ import annotations

from kubewright.machinery.fields import FieldError, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.apps import workload
from kubewright_controlplane.apiserver.kinds.core import podwarnings
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_COUNTS = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")


class DaemonSetStrategy(Strategy):
    def default(self, obj: JSONObject) -> None:
        spec: JSONObject = obj.setdefault("spec", {})
        workload.default_rolling_update(spec.setdefault("updateStrategy", {}), maxUnavailable=1, maxSurge=0)
        spec.setdefault("revisionHistoryLimit", 10)
        workload.default_template(spec)
        if "status" in obj:
            obj["status"] = dict.fromkeys(_COUNTS, 0) | obj["status"]
        if _TEMPLATE_GENERATION not in (obj["metadata"].get("annotations") or {}):
            _set_template_generation(obj, 0)

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = dict.fromkeys(_COUNTS, 0)
        _set_template_generation(obj, 1)

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        present = (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION) or "1"
        changed = not checks.same(obj["spec"].get("template"), old["spec"].get("template"))
        _set_template_generation(obj, int(present) + changed)

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec = obj["spec"]
        selector = spec.get("selector")
        errors = workload.selector_errors(selector, "daemonset") if selector is not None else []
        errors += workload.template_errors(spec, "DaemonSet")
        for field in ("minReadySeconds", "revisionHistoryLimit"):
            errors += checks.non_negative(f"spec.{field}", spec.get(field))
        return errors + _strategy_errors(spec.get("updateStrategy") or {})

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        if old is not None and checks.same(obj["spec"]["template"], old["spec"]["template"]):
            return []
        return podwarnings.template_warnings("spec.template", obj["spec"]["template"])

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return checks.immutable("spec.selector", obj["spec"].get("selector"), old["spec"].get("selector"))

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        errors: list[FieldError] = []
        for field in (*_COUNTS, "observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable"):
            errors += checks.non_negative(f"status.{field}", (obj.get("status") or {}).get(field))
        collisions = (obj.get("status") or {}).get("collisionCount")
        errors += checks.non_negative("status.collisionCount", collisions)
        return errors + workload.collision_errors(obj.get("status") or {}, old.get("status") or {})


def _set_template_generation(obj: JSONObject, generation: int) -> None:
    annotations = obj["metadata"].get("annotations") or {}
    obj["metadata"]["annotations"] = {**annotations, _TEMPLATE_GENERATION: str(generation)}


def _strategy_errors(strategy: JSONObject) -> list[FieldError]:
    kind, path = strategy.get("type"), "spec.updateStrategy.rollingUpdate"
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        return [not_supported("spec.updateStrategy", strategy, ("RollingUpdate", "OnDelete"))]
    rolling = strategy.get("rollingUpdate") or {}
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    errors = workload.int_or_percent(f"{path}.maxUnavailable", unavailable)
    errors += workload.int_or_percent(f"{path}.maxSurge", surge)
    errors += workload.at_most_all(f"{path}.maxUnavailable", unavailable)
    errors += workload.at_most_all(f"{path}.maxSurge", surge)
    if not workload.is_zero(unavailable) and not workload.is_zero(surge):
        errors.append(invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    if workload.is_zero(unavailable) and workload.is_zero(surge):
        errors.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors
