"""Strategies of networking.k8s.io: Ingresses, and those of `networkpolicy`. Follows k8s.io/kubernetes
pkg/apis/networking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, forbidden, invalid, not_supported, required, too_long
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.core import addresses
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy
from kubewright_controlplane.apiserver.kinds.networkpolicy import NetworkPolicyStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import RESET_BY_STATUS, Attributes, Strategy

_SCOPES: Final = ("Cluster", "Namespace")
_LONGEST_CONTROLLER: Final = 250
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_IN_A_PATH: Final = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AT_ITS_END: Final = ("/..", "/.")


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {
        "ingresses": IngressStrategy(),
        "ingressclasses": IngressClassStrategy(),
        "ipaddresses": IPAddressStrategy(),
        "networkpolicies": NetworkPolicyStrategy(),
        "servicecidrs": ServiceCIDRStrategy(),
    }


class IPAddressStrategy(PlainStrategy):
    """An address that is taken from a range of Services. Its name is the address."""

    def name_errors(self, name: str) -> list[str]:
        return addresses.name_errors(name)

    def validate_create(self, obj: JSONObject) -> list[FieldError]:
        reference: JSONObject | None = (obj.get("spec") or {}).get("parentRef")
        path, errors = "spec.parentRef", list[FieldError]()
        if reference is None:
            return [required(path)]
        if reference.get("group"):
            errors += checks.named(f"{path}.group", reference["group"], names.dns1123_subdomain)
        for field in ("resource", "name"):
            errors += checks.required_name(f"{path}.{field}", reference.get(field), names.path_segment)
        if reference.get("namespace"):
            errors += checks.named(f"{path}.namespace", reference["namespace"], names.path_segment)
        return errors

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        new, before = ((each.get("spec") or {}).get("parentRef") for each in (obj, old))
        return checks.immutable("spec.parentRef", new, before)


class ServiceCIDRStrategy(PlainStrategy):
    """A range of the addresses of Services."""

    metadata_without_status = RESET_BY_STATUS

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {}

    def validate_create(self, obj: JSONObject) -> list[FieldError]:
        return _range_errors((obj.get("spec") or {}).get("cidrs") or [])

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        cidrs, before = (list[str]((each.get("spec") or {}).get("cidrs") or ()) for each in (obj, old))
        added = len(before) == 1 and len(cidrs) == 2
        if len(cidrs) != len(before) and not added:
            return [invalid("spec.cidrs", cidrs, "field is immutable")]
        pairs = zip(cidrs, before, strict=False)
        errors = [
            invalid(f"spec.cidrs[{index}]", new, "field is immutable")
            for index, (new, kept) in enumerate(pairs)
            if new != kept
        ]
        return errors + (_range_errors(cidrs) if added else [])


def _range_errors(cidrs: Sequence[str]) -> list[FieldError]:
    if not cidrs:
        return [required("spec.cidrs", "at least one CIDR required")]
    if len(cidrs) > 2:
        return [invalid("spec.cidrs", {"cidrs": list(cidrs)}, "may only hold up to 2 values")]
    errors = list[FieldError]()
    for index, cidr in enumerate(cidrs):
        errors += addresses.cidr_errors(f"spec.cidrs[{index}]", cidr)
    if not errors and len({addresses.version(cidr) for cidr in cidrs}) < len(cidrs):
        why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        errors.append(invalid("spec.cidrs", list(cidrs), why))
    return errors


class IngressStrategy(Strategy):
    def default(self, obj: JSONObject) -> None:
        obj.setdefault("spec", {})

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {"loadBalancer": {}}

    def prepare_for_status_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        obj.setdefault("status", {}).setdefault("loadBalancer", {})

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        balancer: JSONObject = (obj.get("status") or {}).get("loadBalancer") or {}
        return addresses.ingress_errors("status.loadBalancer", balancer)

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec = obj["spec"]
        errors: list[FieldError] = []
        if not spec.get("rules") and spec.get("defaultBackend") is None:
            errors.append(invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified"))
        if spec.get("defaultBackend") is not None:
            errors += _backend_errors("spec.defaultBackend", spec["defaultBackend"])
        for index, rule in enumerate(spec.get("rules") or ()):
            errors += _rule_errors(f"spec.rules[{index}]", rule)
        for index, tls in enumerate(spec.get("tls") or ()):
            errors += _tls_errors(f"spec.tls[{index}]", tls)
        if spec.get("ingressClassName") is not None:
            errors += checks.named("spec.ingressClassName", spec["ingressClassName"], names.dns1123_subdomain)
        return errors


class IngressClassStrategy(Strategy):
    def default(self, obj: JSONObject) -> None:
        parameters = (obj.get("spec") or {}).get("parameters")
        if parameters is not None:
            parameters.setdefault("scope", "Cluster")

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec, path = obj.get("spec") or {}, "spec.controller"
        controller = spec.get("controller") or ""
        errors = [too_long(path, _LONGEST_CONTROLLER)] if len(controller.encode()) > _LONGEST_CONTROLLER else []
        errors += checks.domain_prefixed_path(path, controller)
        parameters = spec.get("parameters")
        return errors if parameters is None else errors + _parameter_errors("spec.parameters", parameters)

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        now, before = ((each.get("spec") or {}).get("controller") for each in (obj, old))
        return checks.immutable("spec.controller", now, before)


def _parameter_errors(path: str, parameters: JSONObject) -> list[FieldError]:
    errors = _reference_errors(path, parameters)
    scope, namespace, at = parameters["scope"], parameters.get("namespace"), f"{path}.namespace"
    if scope not in _SCOPES:
        errors.append(not_supported(f"{path}.scope", scope, _SCOPES))
    elif scope == "Cluster" and namespace is not None:
        errors.append(forbidden(at, "`parameters.scope` is set to 'Cluster'"))
    elif scope == "Namespace" and namespace is None:
        errors.append(required(at, "`parameters.scope` is set to 'Namespace'"))
    elif scope == "Namespace":
        errors += checks.named(at, namespace or "", names.dns1123_label)
    return errors


def _rule_errors(path: str, rule: JSONObject) -> list[FieldError]:
    host, errors = rule.get("host") or "", list[FieldError]()
    if host:
        if addresses.is_ip(host):
            errors.append(invalid(f"{path}.host", host, "must be a DNS name, not an IP address"))
        errors += _host_errors(f"{path}.host", host)
    http = rule.get("http")
    if http is None:
        return errors
    if not http.get("paths"):
        errors.append(required(f"{path}.http.paths"))
    for index, each in enumerate(http.get("paths") or ()):
        errors += _path_errors(f"{path}.http.paths[{index}]", each)
    return errors


def _host_errors(path: str, host: str) -> list[FieldError]:
    rule = names.wildcard_dns1123_subdomain if "*" in host else names.dns1123_subdomain
    return checks.named(path, host, rule)


def _tls_errors(path: str, tls: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, host in enumerate(tls.get("hosts") or ()):
        errors += _host_errors(f"{path}.hosts[{index}]", host)
    if tls.get("secretName"):
        errors += checks.named(f"{path}.secretName", tls["secretName"], names.dns1123_subdomain)
    return errors


def _path_errors(path: str, each: JSONObject) -> list[FieldError]:
    at, given, kind = f"{path}.path", each.get("path") or "", each.get("pathType")
    if not kind:
        return [required(f"{path}.pathType", "pathType must be specified")]
    errors: list[FieldError] = []
    if kind not in _PATH_TYPES:
        errors.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    elif kind == "ImplementationSpecific":
        if given and not given.startswith("/"):
            errors.append(invalid(at, given, "must be an absolute path"))
    else:
        if not given.startswith("/"):
            errors.append(invalid(at, given, "must be an absolute path"))
        errors += [invalid(at, given, f"must not contain '{part}'") for part in _NOT_IN_A_PATH if part in given]
        errors += [invalid(at, given, f"cannot end with '{end}'") for end in _NOT_AT_ITS_END if given.endswith(end)]
    return errors + _backend_errors(f"{path}.backend", each.get("backend") or {})


def _backend_errors(path: str, backend: JSONObject) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if service is not None:
        return _service_errors(path, service)
    if resource is None:
        return [invalid(path, "", "resource or service backend is required")]
    return _reference_errors(f"{path}.resource", resource)


def _reference_errors(path: str, reference: JSONObject) -> list[FieldError]:
    """Return the errors of a reference to an object of any kind."""
    group, errors = reference.get("apiGroup"), list[FieldError]()
    if group is not None:
        errors += checks.named(f"{path}.apiGroup", group, names.dns1123_subdomain)
    for field in ("kind", "name"):
        errors += checks.required_name(f"{path}.{field}", reference.get(field), names.path_segment)
    return errors


def _service_errors(path: str, service: JSONObject) -> list[FieldError]:
    errors = checks.required_name(f"{path}.service.name", service.get("name"), names.dns1123_label)
    port = service.get("port") or {}
    name, number = port.get("name"), port.get("number")
    if name and number:
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif name:
        errors += checks.port(f"{path}.service.port.name", name)
    elif number:
        errors += checks.port(f"{path}.service.port.number", number)
    else:
        errors.append(required(path, "port name or number is required"))
    return errors
