"""Namespaces: their label, their phase, and the finalizer in their spec, which keeps them while they have content.

Follows k8s.io/kubernetes pkg/registry/core/namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, invalid
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Subresource, View

_FINALIZER: Final = "kubernetes"
_LABEL: Final = "kubernetes.io/metadata.name"
_NOT_STANDARD: Final = "name is neither a standard finalizer name nor is it fully qualified"


class NamespaceStrategy(PlainStrategy):
    delete_answers_object = True
    records_grace = False
    selectable_fields = ("status.phase",)

    @property
    def subresources(self) -> Mapping[str, Subresource]:
        return {"finalize": Finalize(verbs=("update",))}

    def name_errors(self, name: str) -> list[str]:
        return names.dns1123_label(name)

    def default(self, obj: JSONObject) -> None:
        metadata: JSONObject = obj.setdefault("metadata", {})
        if metadata.get("name"):
            metadata["labels"] = {**(metadata.get("labels") or {}), _LABEL: metadata["name"]}
        obj.setdefault("spec", {})

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), _LABEL: obj["metadata"]["name"]}
        finalizers: list[str] = obj["spec"].setdefault("finalizers", [])
        if _FINALIZER not in finalizers:
            finalizers.append(_FINALIZER)
        obj["status"] = {"phase": "Active"}

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        obj["spec"] = old.get("spec") or {}

    def validate(self, obj: JSONObject) -> list[FieldError]:
        return _finalizer_errors("spec.finalizers", obj.get("spec") or {})

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        phase = (obj.get("status") or {}).get("phase") or "Active"
        if not obj["metadata"].get("deletionTimestamp"):
            why = "may only be 'Active' if `deletionTimestamp` is empty"
            return [] if phase == "Active" else [invalid("status.Phase", phase, why)]
        why = "may only be 'Terminating' if `deletionTimestamp` is not empty"
        return [] if phase == "Terminating" else [invalid("status.Phase", phase, why)]

    def before_delete(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}

    def keeps_deleted(self, obj: JSONObject) -> bool:
        return bool((obj.get("spec") or {}).get("finalizers"))

    def fields(self, obj: JSONObject) -> Mapping[str, str]:
        return {"status.phase": (obj.get("status") or {}).get("phase") or ""}


@dataclass(frozen=True)
class Finalize(View):
    """The finalize subresource: changes the finalizers in a Namespace's spec, and nothing else."""

    def write(self, view: JSONObject, old: JSONObject, attributes: Attributes) -> JSONObject:
        metadata = {**old["metadata"], "resourceVersion": view["metadata"].get("resourceVersion")}
        finalizers = (view.get("spec") or {}).get("finalizers")
        return {**old, "metadata": metadata, "spec": {"finalizers": finalizers} if finalizers else {}}

    def validate(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return _finalizer_errors("spec.finalizers", obj.get("spec") or {})


def _finalizer_errors(path: str, spec: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in spec.get("finalizers") or ():
        errors += checks.named(path, name, names.qualified_name)
        if "/" not in name and name not in (_FINALIZER, "orphan", "foregroundDeletion"):
            errors.append(invalid(path, name, _NOT_STANDARD))
    return errors
