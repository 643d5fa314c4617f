"""Strategies of storage.k8s.io. Follows k8s.io/kubernetes pkg/registry/storage and pkg/apis/storage."""

from __future__ import annotations

from collections.abc import Mapping

from kubewright.machinery.fields import FieldError, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Strategy


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {
        "csidrivers": ConditionalUpdateStrategy(),
        "csinodes": ConditionalUpdateStrategy(),
        "csistoragecapacities": ConditionalUpdateStrategy(),
        "storageclasses": StorageClassStrategy(),
        "volumeattachments": ConditionalUpdateStrategy(),
        "volumeattributesclasses": ObjectOnDeleteStrategy(),
    }


class ObjectOnDeleteStrategy(PlainStrategy):
    """A kind whose delete answers with the object."""

    delete_answers_object = True


class ConditionalUpdateStrategy(ObjectOnDeleteStrategy):
    """A kind for which a PUT requires a resourceVersion."""

    allow_unconditional_update = False


class StorageClassStrategy(ObjectOnDeleteStrategy):
    def default(self, obj: JSONObject) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate(self, obj: JSONObject) -> list[FieldError]:
        errors = [] if obj.get("provisioner") else [required("provisioner")]
        policies, modes = ("Delete", "Retain"), ("Immediate", "WaitForFirstConsumer")
        if obj["reclaimPolicy"] not in policies:
            errors.append(not_supported("reclaimPolicy", obj["reclaimPolicy"], policies))
        if obj["volumeBindingMode"] not in modes:
            errors.append(not_supported("volumeBindingMode", obj["volumeBindingMode"], modes))
        return errors

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        errors: list[FieldError] = []
        for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            errors += checks.immutable(field, obj.get(field), old.get(field))
        return errors
