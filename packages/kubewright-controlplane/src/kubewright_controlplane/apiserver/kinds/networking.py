"""Strategies of networking.k8s.io: Ingresses, and those of `networkpolicy`. Follows k8s.io/kubernetes
pkg/apis/networking.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.core import addresses
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy
from kubewright_controlplane.apiserver.kinds.networkpolicy import NetworkPolicyStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_IN_A_PATH: Final = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AT_ITS_END: Final = ("/..", "/.")


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
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
        for index, tls in enumerate(spec.get("tls") or ()):
            faults += _tls_faults(f"spec.tls[{index}]", tls)
        if spec.get("ingressClassName"):
            faults += checks.named("spec.ingressClassName", spec["ingressClassName"], names.dns1123_subdomain)
        return faults


def _rule_faults(path: str, rule: JSONObject) -> list[FieldError]:
    host, faults = rule.get("host") or "", list[FieldError]()
    if host:
        if addresses.is_ip(host):
            faults.append(invalid(f"{path}.host", host, "must be a DNS name, not an IP address"))
        faults += _host_faults(f"{path}.host", host)
    http = rule.get("http")
    if http is None:
        return faults
    if not http.get("paths"):
        faults.append(required(f"{path}.http.paths"))
    for index, each in enumerate(http.get("paths") or ()):
        faults += _path_faults(f"{path}.http.paths[{index}]", each)
    return faults


def _host_faults(path: str, host: str) -> list[FieldError]:
    rule = names.wildcard_dns1123_subdomain if "*" in host else names.dns1123_subdomain
    return checks.named(path, host, rule)


def _tls_faults(path: str, tls: JSONObject) -> list[FieldError]:
    faults: list[FieldError] = []
    for index, host in enumerate(tls.get("hosts") or ()):
        faults += _host_faults(f"{path}.hosts[{index}]", host)
    if tls.get("secretName"):
        faults += checks.named(f"{path}.secretName", tls["secretName"], names.dns1123_subdomain)
    return faults


def _path_faults(path: str, each: JSONObject) -> list[FieldError]:
    at, given, kind = f"{path}.path", each.get("path") or "", each.get("pathType")
    if not kind:
        return [required(f"{path}.pathType", "pathType must be specified")]
    faults: list[FieldError] = []
    if kind not in _PATH_TYPES:
        faults.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    elif kind == "ImplementationSpecific":
        if given and not given.startswith("/"):
            faults.append(invalid(at, given, "must be an absolute path"))
    else:
        if not given.startswith("/"):
            faults.append(invalid(at, given, "must be an absolute path"))
        faults += [invalid(at, given, f"must not contain '{part}'") for part in _NOT_IN_A_PATH if part in given]
        faults += [invalid(at, given, f"cannot end with '{end}'") for end in _NOT_AT_ITS_END if given.endswith(end)]
    return faults + _backend_faults(f"{path}.backend", each.get("backend") or {})


def _backend_faults(path: str, backend: JSONObject) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if service is not None:
        return _service_faults(path, service)
    if resource is None:
        return [invalid(path, "", "resource or service backend is required")]
    faults: list[FieldError] = []
    for field in ("kind", "name"):
        faults += checks.required_name(f"{path}.resource.{field}", resource.get(field), names.path_segment)
    return faults


def _service_faults(path: str, service: JSONObject) -> list[FieldError]:
    faults = checks.required_name(f"{path}.service.name", service.get("name"), names.dns1123_label)
    port = service.get("port") or {}
    name, number = port.get("name"), port.get("number")
    if name and number:
        faults.append(invalid(path, "", "cannot set both port name & port number"))
    elif name:
        faults += checks.port(f"{path}.service.port.name", name)
    elif number:
        faults += checks.port(f"{path}.service.port.number", number)
    else:
        faults.append(required(path, "port name or number is required"))
    return faults
