"""ReplicaSets. Follows k8s.io/kubernetes pkg/registry/apps/replicaset and pkg/apis/apps."""

from __future__ import annotations

from kubewright.machinery.fields import FieldError
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.apps import workload
from kubewright_controlplane.apiserver.kinds.core import podwarnings
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy


class ReplicaSetStrategy(Strategy):
    def default(self, obj: JSONObject) -> None:
        spec: JSONObject = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        workload.default_template(spec)
        if "status" in obj:
            obj["status"].setdefault("replicas", 0)

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {"replicas": 0}

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec = obj["spec"]
        errors = checks.non_negative("spec.replicas", spec.get("replicas"))
        errors += checks.non_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
        errors += workload.selector_errors(spec.get("selector"), "deployment")
        return errors + workload.selected_template_errors(spec, "ReplicaSet", "invalid label selector")

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        return podwarnings.workload_warnings(obj, old)

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return checks.immutable("spec.selector", obj["spec"].get("selector"), old["spec"].get("selector"))

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        counts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        return workload.status_errors(obj.get("status") or {}, *counts)
