"""Services: defaults, addresses, validation.

There is one IP family, that of the server's service range. A second one is rejected, as on a single-stack cluster.
Follows k8s.io/kubernetes pkg/registry/core/service and pkg/apis/core/validation.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.errors import Invalid
from kubewright.machinery.fields import FieldError, forbidden, invalid
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.core.allocation import Allocations, cluster_ips, used_ports
from kubewright_controlplane.apiserver.kinds.core.proxying import ServiceProxy
from kubewright_controlplane.apiserver.kinds.core.servicevalidation import (
    cluster_ip_errors,
    is_headless,
    status_errors,
    validate,
    warnings,
)
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy, Subresource
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

_WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")
_CLIENT_IP_SECONDS: Final = 10800


class ServiceStrategy(Strategy):
    allow_create_on_update = True
    delete_answers_object = True
    selectable_fields = ("spec.clusterIP", "spec.type")
    has_generation = False

    def __init__(self, resources: ResourceSet, allocations: Allocations) -> None:
        self._resources = resources
        self._allocations = allocations
        version = allocations.network.version
        self._family = f"IPv{version}"
        self._other_family = "IPv6" if version == 4 else "IPv4"

    @property
    def subresources(self) -> Mapping[str, Subresource]:
        return {"proxy": ServiceProxy(resources=self._resources)}

    def name_errors(self, name: str) -> list[str]:
        return names.dns1123_label(name)

    def default(self, obj: JSONObject) -> None:
        spec: JSONObject = obj.setdefault("spec", {})
        kind = spec.setdefault("type", "ClusterIP")
        _default_affinity(spec)
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if not port.get("targetPort"):
                port["targetPort"] = port.get("port") or 0
        if _is_external(spec):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if kind in ("ClusterIP", *_WITH_NODE_PORTS):
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
            for ingress in ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
                if ingress.get("ip"):
                    ingress.setdefault("ipMode", "VIP")

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {"loadBalancer": {}}
        _pair_cluster_ips(obj["spec"], {})
        self._allocate(obj, owner="")

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        spec, before = obj["spec"], old["spec"]
        _keep_allocated(spec, before)
        _pair_cluster_ips(spec, before)
        _drop_fields_of_other_types(spec, before)
        if spec["type"] != "LoadBalancer" and (obj.get("status") or {}).get("loadBalancer"):
            obj["status"] = {**obj["status"], "loadBalancer": {}}
        if spec["type"] != "ExternalName" and not spec.get("ipFamilyPolicy") and before.get("ipFamilyPolicy"):
            spec["ipFamilyPolicy"] = before["ipFamilyPolicy"]
        self._allocate(obj, owner=f"{obj['metadata']['namespace']}/{obj['metadata']['name']}")

    def validate(self, obj: JSONObject) -> list[FieldError]:
        return validate(obj["spec"])

    def prepare_for_status_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        obj.setdefault("status", {}).setdefault("loadBalancer", {})

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return status_errors(obj.get("status") or {}, obj["spec"])

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        return warnings(obj["spec"])

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        new_spec, old_spec = obj["spec"], old["spec"]
        if "ExternalName" in (new_spec["type"], old_spec["type"]):
            return []
        if is_headless(new_spec) and is_headless(old_spec):
            return []
        errors = _update_errors(new_spec, old_spec)
        now, before = new_spec.get("clusterIPs") or [], old_spec.get("clusterIPs") or []
        if not now and before:
            return [*errors, invalid("spec.clusterIPs[0]", now, "primary clusterIP can not be unset")]
        changed = [index for index, ip in enumerate(before) if index < len(now) and now[index] != ip]
        return errors + [invalid(f"spec.clusterIPs[{index}]", now, "may not change once set") for index in changed]

    def fields(self, obj: JSONObject) -> Mapping[str, str]:
        spec = obj.get("spec") or {}
        return {"spec.clusterIP": spec.get("clusterIP") or "", "spec.type": spec.get("type") or ""}

    def is_taken(self, obj: JSONObject) -> bool:
        metadata, spec, allocations = obj["metadata"], obj["spec"], self._allocations
        owners = {allocations.ip_owner(ip) for ip in cluster_ips(spec)}
        owners |= {allocations.port_owner(port) for port in used_ports(spec)}
        return not owners <= {None, f"{metadata['namespace']}/{metadata['name']}"}

    def _allocate(self, obj: JSONObject, *, owner: str) -> None:
        """Allocate families, addresses and node ports that the Service leaves open. `owner` may request what it
        already has.

        Raises Invalid for requests that cannot be met; all other validation comes later.
        """
        spec = obj["spec"]
        if spec["type"] != "ExternalName":
            self._set_families(obj)
            self._set_cluster_ip(obj, owner)
        if spec["type"] in _WITH_NODE_PORTS:
            self._set_node_ports(obj, owner)

    def _set_families(self, obj: JSONObject) -> None:
        spec = obj["spec"]
        without_selector = is_headless(spec) and not spec.get("selector")
        policy = spec.setdefault("ipFamilyPolicy", "RequireDualStack" if without_selector else "SingleStack")
        _raise_if_invalid(obj, cluster_ip_errors(spec))
        families: list[str] = spec.setdefault("ipFamilies", [self._family])
        if without_selector:
            if len(families) == 1 and policy != "SingleStack":
                families.append(self._other_family if families[0] == self._family else self._family)
            return
        if policy == "RequireDualStack":
            why = "this cluster is not configured for dual-stack services"
            _raise_if_invalid(obj, [invalid("spec.ipFamilyPolicy", policy, why)])
        _raise_if_invalid(
            obj,
            [
                invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
                for index, family in enumerate(families)
                if family != self._family
            ],
        )

    def _set_cluster_ip(self, obj: JSONObject, owner: str) -> None:
        spec, allocations = obj["spec"], self._allocations
        given: list[str] = spec.get("clusterIPs") or []
        for ip in given:
            if ip == "None" or allocations.ip_owner(ip) == owner:
                continue
            why = ""
            if ipaddress.ip_address(ip) not in allocations.network:
                why = "the provided network does not match the current range"
            elif allocations.ip_owner(ip) is not None:
                why = "provided IP is already allocated"
            if why:
                _raise_if_invalid(obj, [invalid("spec.clusterIPs", given, f"failed to allocate IP {ip}: {why}")])
        if not given:
            spec["clusterIP"] = allocations.free_ip()
            spec["clusterIPs"] = [spec["clusterIP"]]

    def _set_node_ports(self, obj: JSONObject, owner: str) -> None:
        """Check the requested node ports and choose the others. A port with two protocols gets one number."""
        spec = obj["spec"]
        ports: list[JSONObject] = spec.get("ports") or []
        for index, port in enumerate(ports):
            number = port.get("nodePort")
            if number and self._allocations.port_owner(number) != owner:
                why = self._port_error(number)
                if why:
                    _raise_if_invalid(obj, [invalid(f"spec.ports[{index}].nodePort", number, why)])
        taken = set(used_ports(spec))
        given = {port.get("port"): port["nodePort"] for port in ports if port.get("nodePort")}
        for port in ports if _chooses_node_ports(spec) else ():
            if port.get("nodePort"):
                continue
            number = given.get(port.get("port"))
            if number is None or _is_used_for_same_protocol(ports, port, number):
                number = self._allocations.free_port(taken)
            port["nodePort"] = given[port.get("port")] = number
            taken.add(number)
        if _needs_health_check(spec) and not spec.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = self._allocations.free_port(taken)

    def _port_error(self, number: int) -> str:
        ports = self._allocations.node_ports
        if number not in ports:
            valid = f"The range of valid ports is {ports.start}-{ports.stop - 1}"
            return f"provided port is not in the valid range. {valid}"
        return "" if self._allocations.port_owner(number) is None else "provided port is already allocated"


def _update_errors(spec: JSONObject, old: JSONObject) -> list[FieldError]:
    """Return the errors of fields that stay as they are while a Service is a load balancer."""
    errors: list[FieldError] = []
    chosen, before = spec.get("loadBalancerClass"), old.get("loadBalancerClass")
    if spec["type"] == old["type"] == "LoadBalancer" and chosen != before:
        errors.append(invalid("spec.loadBalancerClass", chosen, "may not change once set"))
    checked = _needs_health_check(spec) and _needs_health_check(old)
    if checked and spec.get("healthCheckNodePort") != old.get("healthCheckNodePort"):
        errors.append(forbidden("spec.healthCheckNodePort", "field is immutable"))
    return errors


def _raise_if_invalid(obj: JSONObject, errors: list[FieldError]) -> None:
    if errors:
        raise Invalid.of("Service", "", obj["metadata"]["name"], errors)


def _chooses_node_ports(spec: JSONObject) -> bool:
    """Return whether the server chooses node ports for a Service that does not request any."""
    if spec["type"] == "NodePort":
        return True
    return spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False


def _default_affinity(spec: JSONObject) -> None:
    affinity = spec.setdefault("sessionAffinity", "None")
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP":
        config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if config.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _CLIENT_IP_SECONDS}}


def _is_external(spec: JSONObject) -> bool:
    return spec["type"] in _WITH_NODE_PORTS or (spec["type"] == "ClusterIP" and bool(spec.get("externalIPs")))


def _needs_health_check(spec: JSONObject) -> bool:
    return spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _is_used_for_same_protocol(ports: list[JSONObject], port: JSONObject, number: int) -> bool:
    """Return whether the number is already used for the same protocol."""
    return any(each.get("nodePort") == number and each.get("protocol") == port.get("protocol") for each in ports)


def _pair_cluster_ips(spec: JSONObject, old: JSONObject) -> None:
    """Keep `clusterIP` and `clusterIPs` equal, since a client may know only one of them."""
    if spec["type"] == "ExternalName" and not old:
        return
    single, several = spec.get("clusterIP"), spec.get("clusterIPs")
    if single and not several:
        spec["clusterIPs"] = [single]
    elif old and single != old.get("clusterIP") and several == old.get("clusterIPs"):
        if single:
            spec["clusterIPs"] = [single, *(several or [])[1:]]
        else:
            spec.pop("clusterIPs", None)
    elif old and several != old.get("clusterIPs") and single == old.get("clusterIP"):
        if several:
            spec["clusterIP"] = several[0]
        else:
            spec.pop("clusterIP", None)


def _keep_allocated(spec: JSONObject, old: JSONObject) -> None:
    """Keep values that the server has allocated and that an update omits."""
    if "ExternalName" not in (spec["type"], old["type"]):
        for field in ("clusterIP", "clusterIPs", "ipFamilies"):
            if not spec.get(field) and old.get(field):
                spec[field] = old[field]
    if spec["type"] in _WITH_NODE_PORTS and old["type"] in _WITH_NODE_PORTS:
        now = {port.get("nodePort") for port in spec.get("ports") or ()}
        before = {port.get("name", ""): port.get("nodePort") for port in old.get("ports") or ()}
        for port in spec.get("ports") or ():
            number = before.get(port.get("name", ""))
            if not port.get("nodePort") and number and number not in now:
                port["nodePort"] = number
    if _needs_health_check(spec) and _needs_health_check(old) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = old.get("healthCheckNodePort")


def _drop_fields_of_other_types(spec: JSONObject, old: JSONObject) -> None:
    """When the type changes, drop the fields that only the old type had, unless the user changed them too."""
    if old["type"] != "ExternalName" and spec["type"] == "ExternalName":
        if spec.get("clusterIP") == old.get("clusterIP") and checks.same(spec.get("clusterIPs"), old.get("clusterIPs")):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        _drop_unchanged(spec, old, "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
    if old["type"] in _WITH_NODE_PORTS and spec["type"] not in _WITH_NODE_PORTS:
        had = {port.get("nodePort") for port in old.get("ports") or ()}
        if all(port.get("nodePort") in had for port in spec.get("ports") or () if port.get("nodePort")):
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    if _needs_health_check(old) and not _needs_health_check(spec):
        _drop_unchanged(spec, old, "healthCheckNodePort")
    if old["type"] == "LoadBalancer" and spec["type"] != "LoadBalancer":
        _drop_unchanged(spec, old, "allocateLoadBalancerNodePorts", "loadBalancerClass")
    if _is_external(old) and not _is_external(spec):
        _drop_unchanged(spec, old, "externalTrafficPolicy")


def _drop_unchanged(spec: JSONObject, old: JSONObject, *fields: str) -> None:
    for field in fields:
        if checks.same(spec.get(field), old.get(field)):
            spec.pop(field, None)
