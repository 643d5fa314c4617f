"""Strategies of coordination.k8s.io: Leases. Follows k8s.io/kubernetes pkg/apis/coordination/validation."""

from __future__ import annotations

from collections.abc import Mapping

from kubewright.machinery.fields import FieldError, forbidden, invalid
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.generic import UpsertStrategy
from kubewright_controlplane.apiserver.registry.model import Strategy


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {"leases": LeaseStrategy()}


class LeaseStrategy(UpsertStrategy):
    allow_unconditional_update = False

    def default(self, obj: JSONObject) -> None:
        obj.setdefault("spec", {})

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec = obj["spec"]
        errors: list[FieldError] = []
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            errors.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
        if spec.get("preferredHolder") and not spec.get("strategy"):
            errors.append(forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"))
        return errors
