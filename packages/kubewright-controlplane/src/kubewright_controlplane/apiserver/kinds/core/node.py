"""Nodes. Follows k8s.io/kubernetes pkg/registry/core/node and pkg/apis/core/validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubewright.http.message import Handler
from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, forbidden, invalid, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.core import addresses, resources
from kubewright_controlplane.apiserver.kinds.core.proxying import NodeProxy
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Subresource
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

_NODE_INFO: Final = (
    "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
    "kubeProxyVersion", "operatingSystem", "architecture",
)  # fmt: skip
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class NodeStrategy(PlainStrategy):
    selectable_fields = ("spec.unschedulable",)
    resets_status_on_create = False

    def __init__(self, resources: ResourceSet, kubelet: Handler | None) -> None:
        self._resources = resources
        self._kubelet = kubelet

    @property
    def subresources(self) -> Mapping[str, Subresource]:
        return {"proxy": NodeProxy(resources=self._resources, kubelet=self._kubelet)}

    def default(self, obj: JSONObject) -> None:
        spec: JSONObject = obj.setdefault("spec", {})
        _pair_cidrs(spec)
        spec.pop("configSource", None)  # no kubelet reads its configuration from the server any longer
        status = obj.get("status")
        if status is None:
            return
        status.pop("config", None)
        status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {"Port": 0})
        status["nodeInfo"] = dict.fromkeys(_NODE_INFO, "") | (status.get("nodeInfo") or {})
        if status.get("capacity") and status.get("allocatable") is None:
            status["allocatable"] = dict(status["capacity"])

    def validate(self, obj: JSONObject) -> list[FieldError]:
        errors: list[FieldError] = []
        seen: set[tuple[str, str]] = set()
        for index, taint in enumerate((obj.get("spec") or {}).get("taints") or ()):
            path, key, effect = f"metadata.taints[{index}]", taint.get("key") or "", taint.get("effect") or ""
            errors += checks.named(f"{path}.key", key, names.qualified_name)
            errors += checks.named(f"{path}.value", taint.get("value") or "", names.label_value)
            errors += checks.one_of(f"{path}.effect", effect, _EFFECTS) if effect else [required(f"{path}.effect")]
            if (key, effect) in seen:
                errors.append(duplicate(path, taint))
            seen.add((key, effect))
        return errors + _cidr_errors((obj.get("spec") or {}).get("podCIDRs") or []) + _amount_errors(obj)

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        new_spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
        errors: list[FieldError] = []
        for field, shown in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            if old_spec.get(field) and not checks.same(new_spec.get(field), old_spec[field]):
                why = f'node updates may not change {shown} except from "" to valid'
                errors.append(forbidden(f"spec.{field}", why))
        return errors

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        errors, seen = _amount_errors(obj), set[tuple[str, str]]()
        for index, address in enumerate((obj.get("status") or {}).get("addresses") or ()):
            key = address.get("type") or "", address.get("address") or ""
            if key in seen:
                errors.append(duplicate(f"status.addresses[{index}]", address))
            seen.add(key)
        return errors

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        obj.setdefault("spec", {})

    def fields(self, obj: JSONObject) -> Mapping[str, str]:
        return {"spec.unschedulable": "true" if (obj.get("spec") or {}).get("unschedulable") else "false"}


def _pair_cidrs(spec: JSONObject) -> None:
    """Keep `podCIDR` the first of `podCIDRs`, since a client may know only one of them. `podCIDR` counts."""
    single, several = spec.get("podCIDR"), list[str](spec.get("podCIDRs") or ())
    if single and (not several or several[0] != single):
        spec["podCIDRs"] = [single]
    elif not single and several:
        spec["podCIDR"] = several[0]


def _cidr_errors(cidrs: list[str]) -> list[FieldError]:
    path, errors = "spec.podCIDRs", list[FieldError]()
    for index, cidr in enumerate(cidrs):
        errors += addresses.cidr_errors(f"{path}[{index}]", cidr)
    if not errors and len({addresses.version(cidr) for cidr in cidrs}) < len(cidrs):
        errors.append(invalid(path, cidrs, "may specify no more than one CIDR for each IP family"))
    return errors


def _amount_errors(node: JSONObject) -> list[FieldError]:
    status: JSONObject = node.get("status") or {}
    errors: list[FieldError] = []
    for field in ("capacity", "allocatable"):
        for name, amount in (status.get(field) or {}).items():
            errors += resources.amount_errors(f"status.{field}.{name}", name, amount)
    return errors
