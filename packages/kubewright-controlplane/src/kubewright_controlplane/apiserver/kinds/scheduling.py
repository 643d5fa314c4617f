"""Strategies of scheduling.k8s.io: PriorityClasses. Follows k8s.io/kubernetes pkg/apis/scheduling/validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubewright.machinery.fields import FieldError, forbidden
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Strategy

_MAX_VALUE: Final = 1_000_000_000
_SYSTEM: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {"priorityclasses": PriorityClassStrategy()}


class PriorityClassStrategy(Strategy):
    def default(self, obj: JSONObject) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def validate(self, obj: JSONObject) -> list[FieldError]:
        name, value = obj["metadata"]["name"], obj.get("value") or 0
        errors: list[FieldError] = []
        if name.startswith("system-"):
            if _SYSTEM.get(name) != value or obj.get("globalDefault"):
                why = "priority class names with 'system-' prefix are reserved for system use only. error: "
                known = name in _SYSTEM
                detail = f"value of {name} PriorityClass must be {_SYSTEM.get(name)}" if known else (
                    f"{name} is not a known system priority class"
                )  # fmt: skip
                errors.append(forbidden("metadata.name", why + detail))
        elif value > _MAX_VALUE:
            errors.append(forbidden("value", f"maximum allowed value of a user defined priority is {_MAX_VALUE}"))
        policies = ("PreemptLowerPriority", "Never")
        return errors + checks.one_of("preemptionPolicy", obj.get("preemptionPolicy"), policies)

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        errors: list[FieldError] = []
        if (obj.get("value") or 0) != (old.get("value") or 0):
            errors.append(forbidden("value", "may not be changed in an update."))
        return errors + checks.immutable("preemptionPolicy", obj.get("preemptionPolicy"), old.get("preemptionPolicy"))
