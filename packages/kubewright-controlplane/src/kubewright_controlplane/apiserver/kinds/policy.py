"""Strategies of policy: PodDisruptionBudgets. Follows k8s.io/kubernetes pkg/registry/policy and pkg/apis/policy."""

from __future__ import annotations

from collections.abc import Mapping

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, invalid, not_supported
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.apps.workload import at_most_all, int_or_percent
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy

_FIELDS = ("MinAvailable", "Selector", "MaxUnavailable", "UnhealthyPodEvictionPolicy")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {"poddisruptionbudgets": PodDisruptionBudgetStrategy()}


class PodDisruptionBudgetStrategy(Strategy):
    allow_unconditional_update = False

    def name_errors(self, name: str) -> list[str]:
        return names.path_segment(name)

    def default(self, obj: JSONObject) -> None:
        obj.setdefault("spec", {})

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = dict.fromkeys(_COUNTS, 0)

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec, errors = obj["spec"], list[FieldError]()
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            shown = {name: spec.get(name[0].lower() + name[1:]) for name in _FIELDS}
            errors.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
        for field in ("minAvailable", "maxUnavailable"):
            errors += int_or_percent(f"spec.{field}", spec.get(field))
            errors += at_most_all(f"spec.{field}", spec.get(field))
        errors += checks.label_selector("spec.selector", spec.get("selector"))
        policy, allowed = spec.get("unhealthyPodEvictionPolicy"), ("AlwaysAllow", "IfHealthyBudget")
        if policy is not None and policy not in allowed:
            errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, allowed))
        return errors

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        errors: list[FieldError] = []
        for count in _COUNTS:
            errors += checks.non_negative(f"status.{count}", (obj.get("status") or {}).get(count))
        return checks.conditions("status.conditions", (obj.get("status") or {}).get("conditions")) + errors
