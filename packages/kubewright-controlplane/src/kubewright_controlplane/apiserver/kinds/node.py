"""Strategies of node.k8s.io: RuntimeClasses. Follows k8s.io/kubernetes pkg/registry/node and pkg/apis/node."""

from __future__ import annotations

from collections.abc import Mapping

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.generic import UpsertStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Strategy


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {"runtimeclasses": RuntimeClassStrategy()}


class RuntimeClassStrategy(UpsertStrategy):
    allow_unconditional_update = False

    def validate(self, obj: JSONObject) -> list[FieldError]:
        return checks.named("handler", obj.get("handler") or "", names.dns1123_label)

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return checks.immutable("handler", obj.get("handler"), old.get("handler"))
