"""Strategies of node.k8s.io: RuntimeClasses. Follows k8s.io/kubernetes pkg/registry/node and pkg/apis/node."""

from __future__ import annotations

from collections.abc import Mapping

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate
from kubewright.machinery.json import JSONArray, JSONObject
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.core import placement, resources
from kubewright_controlplane.apiserver.kinds.generic import UpsertStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Strategy


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {"runtimeclasses": RuntimeClassStrategy()}


class RuntimeClassStrategy(UpsertStrategy):
    allow_unconditional_update = False

    def validate(self, obj: JSONObject) -> list[FieldError]:
        errors = checks.required_name("handler", obj.get("handler"), names.dns1123_label)
        if obj.get("overhead") is not None:
            errors += resources.validate("overhead", {"limits": obj["overhead"].get("podFixed")})
        scheduling: JSONObject = obj.get("scheduling") or {}
        errors += checks.labels("scheduling.nodeSelector", scheduling.get("nodeSelector"))
        return errors + _toleration_errors("scheduling.tolerations", scheduling.get("tolerations") or [])

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return checks.immutable("handler", obj.get("handler"), old.get("handler"))


def _toleration_errors(path: str, tolerations: JSONArray) -> list[FieldError]:
    errors = placement.toleration_errors(path, tolerations)
    seen: set[tuple[str, ...]] = set()
    for index, toleration in enumerate(tolerations):
        key = tuple(toleration.get(field) or "" for field in ("key", "operator", "value", "effect"))
        if key in seen:
            errors.append(duplicate(f"{path}[{index}]", toleration))
        seen.add(key)
    return errors
