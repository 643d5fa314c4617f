"""ControllerRevisions: immutable snapshots of a state. Follows k8s.io/kubernetes pkg/apis/apps/validation."""

from __future__ import annotations

from kubewright.machinery.fields import FieldError, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy
from kubewright_controlplane.apiserver.registry import checks


class ControllerRevisionStrategy(PlainStrategy):
    def validate(self, obj: JSONObject) -> list[FieldError]:
        errors = checks.non_negative("revision", obj.get("revision"))
        return errors if obj.get("data") is not None else [*errors, required("data", "data is mandatory")]

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return checks.immutable("data", obj.get("data"), old.get("data"))
