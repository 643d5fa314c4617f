"""Strategies of networking.k8s.io: Ingresses, NetworkPolicies. Follows k8s.io/kubernetes pkg/apis/networking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kubewright.apiserver.registry import checks
from kubewright.apiserver.registry.plain import PlainStrategy
from kubewright.apiserver.registry.strategy import Strategy
from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, invalid, not_supported, required
from kubewright.machinery.json import JSONObject

if TYPE_CHECKING:
    from kubewright.apiserver.admission.attributes import Attributes
    from kubewright.apiserver.server import APIServer

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")


def strategies(server: APIServer) -> Mapping[str, Strategy]:
    return {
        "ingresses": IngressStrategy(),
        "ingressclasses": Strategy(),
        "ipaddresses": PlainStrategy(),
        "networkpolicies": NetworkPolicyStrategy(),
        "servicecidrs": PlainStrategy(),
    }


class IngressStrategy(Strategy):
    def default(self, obj: JSONObject) -> None:
        obj.setdefault("spec", {})

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {"loadBalancer": {}}

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec = obj["spec"]
        faults: list[FieldError] = []
        if not spec.get("rules") and not spec.get("defaultBackend"):
            faults.append(invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified"))
        if spec.get("defaultBackend"):
            faults += _backend_faults("spec.defaultBackend", spec["defaultBackend"])
        for index, rule in enumerate(spec.get("rules") or ()):
            faults += _rule_faults(f"spec.rules[{index}]", rule)
        return faults


class NetworkPolicyStrategy(Strategy):
    def default(self, obj: JSONObject) -> None:
        spec: JSONObject = obj.setdefault("spec", {})
        spec.setdefault("podSelector", {})
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        for rule in [*(spec.get("ingress") or ()), *(spec.get("egress") or ())]:
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec = obj["spec"]
        faults = checks.label_selector("spec.podSelector", spec.get("podSelector"))
        for index, kind in enumerate(spec.get("policyTypes") or ()):
            if kind not in ("Ingress", "Egress"):
                faults.append(not_supported(f"spec.policyTypes[{index}]", kind, ("Egress", "Ingress")))
        return faults


def _rule_faults(path: str, rule: JSONObject) -> list[FieldError]:
    host, faults = rule.get("host") or "", list[FieldError]()
    if host:
        faults += checks.named(f"{path}.host", host.removeprefix("*."), names.dns1123_subdomain)
    http = rule.get("http")
    if http is None:
        return faults
    if not http.get("paths"):
        faults.append(required(f"{path}.http.paths"))
    for index, each in enumerate(http.get("paths") or ()):
        at, kind = f"{path}.http.paths[{index}]", each.get("pathType")
        if not kind:
            faults.append(required(f"{at}.pathType", "pathType must be specified"))
        elif kind not in _PATH_TYPES:
            faults.append(not_supported(f"{at}.pathType", kind, _PATH_TYPES))
        elif kind != "ImplementationSpecific" and not (each.get("path") or "").startswith("/"):
            faults.append(invalid(f"{at}.path", each.get("path") or "", "must be an absolute path"))
        faults += _backend_faults(f"{at}.backend", each.get("backend") or {})
    return faults


def _backend_faults(path: str, backend: JSONObject) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if service is None:
        return [] if resource is not None else [required(f"{path}.service.name")]
    faults = checks.required_name(f"{path}.service.name", service.get("name"), names.dns1123_label)
    port = service.get("port") or {}
    if port.get("name") and port.get("number"):
        faults.append(invalid(path, "", "cannot set both port name & port number"))
    elif not port.get("name") and not port.get("number"):
        faults.append(required(f"{path}.service.port", "port name or number is required"))
    return faults
