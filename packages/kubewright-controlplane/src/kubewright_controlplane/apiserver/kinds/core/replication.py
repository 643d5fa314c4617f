"""ReplicationControllers (older than ReplicaSets) and PodTemplates. Follows k8s.io/kubernetes pkg/apis/core."""

from __future__ import annotations

from collections.abc import Mapping

from kubewright.machinery.fields import FieldError, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.apps import workload
from kubewright_controlplane.apiserver.kinds.core import podspec, podwarnings
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy


class ReplicationControllerStrategy(Strategy):
    selectable_fields = ("status.replicas",)

    def default(self, obj: JSONObject) -> None:
        spec: JSONObject = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        template = spec.get("template")
        if template:
            podspec.default(template.setdefault("spec", {}))
            labels = (template.get("metadata") or {}).get("labels")
            if labels:
                spec["selector"] = spec.get("selector") or dict(labels)
                obj["metadata"]["labels"] = obj["metadata"].get("labels") or dict(labels)

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {"replicas": 0}

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec = obj["spec"]
        errors = checks.non_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
        selector, template = spec.get("selector") or {}, spec.get("template") or {}
        if not selector:
            errors.append(required("spec.selector"))
        errors += checks.non_negative("spec.replicas", spec.get("replicas"))
        if not template:
            return [*errors, required("spec.template")]
        labels = (template.get("metadata") or {}).get("labels") or {}
        if selector and not selector.items() <= labels.items():
            why = "`selector` does not match template `labels`"
            errors.append(invalid("spec.template.metadata.labels", labels, why))
        errors += podspec.validate_template("spec.template", template)
        policy = template["spec"].get("restartPolicy")
        if policy != "Always":
            errors.append(not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
        return errors

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        counts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        return workload.status_errors(obj.get("status") or {}, *counts)

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        return podwarnings.workload_warnings(obj, old)

    def fields(self, obj: JSONObject) -> Mapping[str, str]:
        return {"status.replicas": str((obj.get("status") or {}).get("replicas") or 0)}


class PodTemplateStrategy(Strategy):
    delete_answers_object = True

    def default(self, obj: JSONObject) -> None:
        podspec.default(obj.setdefault("template", {}).setdefault("spec", {}))

    def validate(self, obj: JSONObject) -> list[FieldError]:
        return podspec.validate_template("template", obj["template"])

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        if old is not None and checks.same(obj["template"], old["template"]):
            return []
        return podwarnings.template_warnings("template", obj["template"])
