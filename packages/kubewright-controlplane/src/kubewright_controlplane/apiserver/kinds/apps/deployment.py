"""Deployments. Follows k8s.io/kubernetes pkg/registry/apps/deployment and pkg/apis/apps."""

from __future__ import annotations

from kubewright.machinery.fields import FieldError, forbidden, invalid, not_supported
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.apps import workload
from kubewright_controlplane.apiserver.kinds.core import podwarnings
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy


class DeploymentStrategy(Strategy):
    def default(self, obj: JSONObject) -> None:
        spec: JSONObject = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        workload.default_rolling_update(spec.setdefault("strategy", {}), maxUnavailable="25%", maxSurge="25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
        workload.default_template(spec)

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {}

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        """Raise the generation for annotations too, as only Deployments do: the rollout copies them to ReplicaSets."""
        metadata, before = obj["metadata"], old["metadata"]
        if not checks.same(metadata.get("annotations"), before.get("annotations")):
            metadata["generation"] = before.get("generation", 0) + 1

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec = obj["spec"]
        errors = checks.non_negative("spec.replicas", spec.get("replicas"))
        errors += workload.selector_errors(spec.get("selector"), "deployment")
        errors += workload.selected_template_errors(spec, "ReplicaSet", "invalid label selector")
        errors += _strategy_errors(spec.get("strategy") or {})
        for field in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
            errors += checks.non_negative(f"spec.{field}", spec.get(field))
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
            errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
        return errors

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        return podwarnings.workload_warnings(obj, old)

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return checks.immutable("spec.selector", obj["spec"].get("selector"), old["spec"].get("selector"))

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        status = obj.get("status") or {}
        counts = ("updatedReplicas", "readyReplicas", "availableReplicas")
        return workload.status_errors(status, *counts) + workload.collision_errors(status, old.get("status") or {})


def _strategy_errors(strategy: JSONObject) -> list[FieldError]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    path = "spec.strategy.rollingUpdate"
    if kind == "Recreate":
        if rolling is None:
            return []
        return [forbidden(path, "may not be specified when strategy `type` is 'Recreate'")]
    if kind != "RollingUpdate":
        shown = {"Type": kind, "RollingUpdate": rolling}
        return [not_supported("spec.strategy", shown, ("Recreate", "RollingUpdate"))]
    rolling = rolling or {}
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    errors = workload.int_or_percent(f"{path}.maxUnavailable", unavailable)
    errors += workload.int_or_percent(f"{path}.maxSurge", surge)
    if workload.is_zero(unavailable) and workload.is_zero(surge):
        errors.append(invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + workload.at_most_all(f"{path}.maxUnavailable", unavailable)
