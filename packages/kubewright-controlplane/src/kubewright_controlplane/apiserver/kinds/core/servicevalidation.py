"""Validation of Services, except for addresses that are in use."""

from __future__ import annotations

import ipaddress
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, forbidden, invalid, not_supported, required
from kubewright.machinery.json import JSONArray, JSONObject
from kubewright_controlplane.apiserver.kinds.core import addresses
from kubewright_controlplane.apiserver.registry import checks

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES: Final = ("ClientIP", "None")
_IP_MODES: Final = ("Proxy", "VIP")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_POLICIES: Final = ("Cluster", "Local")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_MAX_AFFINITY_SECONDS: Final = 86400


def is_headless(spec: JSONObject) -> bool:
    return bool(spec.get("clusterIPs") == ["None"] or (not spec.get("clusterIPs") and spec.get("clusterIP") == "None"))


def validate(spec: JSONObject) -> list[FieldError]:
    kind = spec.get("type") or ""
    errors: list[FieldError] = []
    ports = spec.get("ports") or []
    if not ports and not is_headless(spec) and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        errors.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        errors += _external_name(spec)
    errors += _ports(ports)
    errors += checks.labels("spec.selector", spec.get("selector"))
    errors += checks.one_of("spec.sessionAffinity", spec.get("sessionAffinity"), _AFFINITIES)
    errors += _affinity(spec)
    if kind != "ExternalName":
        errors += cluster_ip_errors(spec)
    for index, ip in enumerate(spec.get("externalIPs") or ()):
        errors += addresses.ip_errors(f"spec.externalIPs[{index}]", ip)
    errors += checks.one_of("spec.type", kind, _TYPES)
    errors += _node_ports(kind, ports)
    errors += _port_pairs(ports)
    errors += _load_balancer(kind, spec) + _traffic(kind, spec)
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        errors.append(not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS))
    return errors


def status_errors(status: JSONObject, spec: JSONObject) -> list[FieldError]:
    """Return the errors of the status of a Service."""
    path, balancer = "status.loadBalancer", status.get("loadBalancer") or {}
    ingresses: JSONArray = balancer.get("ingress") or []
    errors: list[FieldError] = []
    if ingresses and spec.get("type") != "LoadBalancer":
        return [forbidden(f"{path}.ingress", "may only be used when `spec.type` is 'LoadBalancer'")]
    for index, ingress in enumerate(ingresses):
        at, mode = f"{path}.ingress[{index}].ipMode", ingress.get("ipMode")
        if ingress.get("ip") and mode is None:
            errors.append(required(at, "must be specified when `ip` is set"))
        elif mode is not None and not ingress.get("ip"):
            errors.append(forbidden(at, "may not be specified when `ip` is not set"))
        elif mode is not None and mode not in _IP_MODES:
            errors.append(not_supported(at, mode, _IP_MODES))
    return errors + addresses.ingress_errors(path, balancer)


def warnings(spec: JSONObject) -> list[str]:
    """Return the warnings about fields without effect, and about deprecated ones."""
    kind, headless, found = spec.get("type"), is_headless(spec), list[str]()
    if headless:
        why = "is ignored for headless services"
        found += [f"spec.{field} {why}" for field in ("loadBalancerIP", "externalIPs") if spec.get(field)]
        if spec.get("sessionAffinity") != "None":
            found.append(f"spec.SessionAffinity {why}")
    elif spec.get("externalIPs") and kind != "ExternalName":
        found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if kind == "ExternalName" and spec.get("externalIPs"):
        found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if kind != "ExternalName" and spec.get("externalName"):
        found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return found


def _external_name(spec: JSONObject) -> list[FieldError]:
    why = "may not be set for ExternalName services"
    errors = [
        forbidden(f"spec.{field}", why) for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy") if spec.get(field)
    ]
    name = (spec.get("externalName") or "").removesuffix(".")
    return errors + checks.required_name("spec.externalName", name, names.dns1123_subdomain)


def _ports(ports: list[JSONObject]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        at, name = f"spec.ports[{index}]", port.get("name") or ""
        if name:
            errors += checks.named(f"{at}.name", name, names.dns1123_label)
            if name in seen:
                errors.append(duplicate(f"{at}.name", name))
            seen.add(name)
        elif len(ports) > 1:
            errors.append(required(f"{at}.name"))
        errors += checks.port(f"{at}.port", port.get("port") or 0)
        errors += checks.one_of(f"{at}.protocol", port.get("protocol"), _PROTOCOLS)
        errors += checks.port(f"{at}.targetPort", port.get("targetPort"))
        if port.get("appProtocol") is not None:
            errors += checks.named(f"{at}.appProtocol", port["appProtocol"], names.qualified_name)
    return errors


def _affinity(spec: JSONObject) -> list[FieldError]:
    if spec.get("sessionAffinity") != "ClientIP":
        return []
    config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
    seconds = config.get("timeoutSeconds")
    path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
    if seconds is None:
        return [required(path, "when session affinity type is ClientIP")]
    if not 0 < seconds <= _MAX_AFFINITY_SECONDS:
        return [invalid(path, seconds, f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}")]
    return []


def cluster_ip_errors(spec: JSONObject) -> list[FieldError]:
    """Return the errors of cluster IPs and IP families that contradict each other."""
    path, single, several = "spec.clusterIPs", spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    errors: list[FieldError] = []
    if single and not several:
        errors.append(required(path))
    elif single and several[0] != single:
        errors.append(invalid(path, several, "first value must match `clusterIP`"))
    elif several and not single:
        errors.append(invalid(path, several, "must be empty when `clusterIP` is not specified"))
    errors += _families(spec)
    wrong: list[FieldError] = []
    if several[:1] == ["None"] and len(several) > 1:
        wrong.append(invalid(path, several, "'None' must be the first and only value"))
    for index, ip in enumerate(several):
        if index or ip != "None":
            wrong += addresses.ip_errors(f"{path}[{index}]", ip)
    errors += wrong
    if len(several) > 2:
        errors.append(invalid(path, several, "may only hold up to 2 values"))
    if wrong:
        return errors
    versions = [ipaddress.ip_address(ip).version for ip in several if ip != "None"]
    if len(versions) > 1 and len(set(versions)) < len(versions):
        errors.append(invalid(path, several, "may specify no more than one IP for each IP family"))
    for index, (family, version) in enumerate(zip(spec.get("ipFamilies") or (), versions, strict=False)):
        if family != f"IPv{version}":
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(f"{path}[{index}]", several[index], detail))
    return errors


def _families(spec: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in ("IPv4", "IPv6"):
            errors.append(not_supported(f"spec.ipFamilies[{index}]", family, ("IPv4", "IPv6")))
        if family in seen:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", family))
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None:
        allowed = ("PreferDualStack", "RequireDualStack", "SingleStack")
        if policy not in allowed:
            errors.append(not_supported("spec.ipFamilyPolicy", policy, allowed))
    return errors


def _node_ports(kind: str, ports: list[JSONObject]) -> list[FieldError]:
    errors: list[FieldError] = []
    if kind == "ClusterIP":
        why = "may not be used when `type` is 'ClusterIP'"
        errors += [
            forbidden(f"spec.ports[{index}].nodePort", why)
            for index, port in enumerate(ports)
            if port.get("nodePort")
        ]  # fmt: skip
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        number = port.get("nodePort")
        if not number:
            continue
        pair = (port.get("protocol") or "", number)
        if pair in seen:
            errors.append(duplicate(f"spec.ports[{index}].nodePort", number))
        seen.add(pair)
    return errors


def _port_pairs(ports: list[JSONObject]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        pair = (port.get("protocol") or "", port.get("port") or 0)
        if pair in seen:
            shown = {"protocol": pair[0], "port": pair[1], "targetPort": 0}
            errors.append(duplicate(f"spec.ports[{index}]", shown))
        seen.add(pair)
    return errors


def _load_balancer(kind: str, spec: JSONObject) -> list[FieldError]:
    if kind == "LoadBalancer":
        errors: list[FieldError] = []
        for index, value in enumerate(spec.get("loadBalancerSourceRanges") or ()):
            errors += addresses.cidr_errors(f"spec.LoadBalancerSourceRanges[{index}]", value.strip())
        if spec.get("loadBalancerClass") is not None:
            errors += checks.named("spec.loadBalancerClass", spec["loadBalancerClass"], names.qualified_name)
        return errors
    why = "may only be used when `type` is 'LoadBalancer'"
    errors = []
    if spec.get("loadBalancerSourceRanges"):
        errors.append(forbidden("spec.LoadBalancerSourceRanges", why))
    if spec.get("allocateLoadBalancerNodePorts") is not None:
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", why))
    if spec.get("loadBalancerClass") is not None:
        errors.append(forbidden("spec.loadBalancerClass", why))
    return errors


def _traffic(kind: str, spec: JSONObject) -> list[FieldError]:
    external = kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and spec.get("externalIPs"))
    policy = spec.get("externalTrafficPolicy")
    path = "spec.externalTrafficPolicy"
    errors: list[FieldError] = []
    if external:
        errors += checks.one_of(path, policy, _POLICIES)
    elif policy:
        errors.append(invalid(path, policy, "may only be set for externally-accessible services"))
    if spec.get("healthCheckNodePort") and not (kind == "LoadBalancer" and policy == "Local"):
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], detail))
    elif port := spec.get("healthCheckNodePort"):
        errors += checks.port("spec.healthCheckNodePort", port)
    internal = spec.get("internalTrafficPolicy")
    if internal:
        errors += checks.one_of("spec.internalTrafficPolicy", internal, _POLICIES)
    elif kind in ("ClusterIP", "NodePort", "LoadBalancer"):
        errors.append(required("spec.internalTrafficPolicy"))
    return errors
