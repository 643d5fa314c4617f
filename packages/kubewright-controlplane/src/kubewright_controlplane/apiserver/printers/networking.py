"""Rows of networking.k8s.io and discovery.k8s.io."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.printers.cells import (
    NONE,
    age_of,
    at,
    is_default_class,
    items,
    joined,
    name,
    selector,
    text,
)
from kubewright_controlplane.apiserver.registry.model import Cells

_SHOWN_HOSTS = 3


def _ingress(obj: JSONObject, now: datetime) -> list[object]:
    balanced = {text(each, "ip") or text(each, "hostname") for each in items(obj, "status", "loadBalancer", "ingress")}
    return [
        name(obj),
        text(obj, "spec", "ingressClassName", default=NONE),
        _hosts(obj),
        ",".join(sorted(balanced - {""})),
        "80, 443" if items(obj, "spec", "tls") else "80",
        age_of(obj, now),
    ]


def _hosts(obj: JSONObject) -> str:
    rules = items(obj, "spec", "rules")
    hosts = [host for each in rules if (host := text(each, "host"))]
    if not hosts:
        return "*"
    shown = ",".join(hosts[:_SHOWN_HOSTS])
    return f"{shown} + {len(rules) - _SHOWN_HOSTS} more..." if len(hosts) > _SHOWN_HOSTS else shown


def _ingress_class(obj: JSONObject, now: datetime) -> list[object]:
    default = " (default)" if is_default_class(obj, "ingressclass.kubernetes.io/is-default-class") else ""
    parameters = at(obj, "spec", "parameters")
    shown = NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
        shown = f"{text(parameters, 'kind')}{group}/{text(parameters, 'name')}"
    return [name(obj) + default, text(obj, "spec", "controller"), shown, age_of(obj, now)]


def _network_policy(obj: JSONObject, now: datetime) -> list[object]:
    return [name(obj), selector(at(obj, "spec", "podSelector")), age_of(obj, now)]


def _service_cidr(obj: JSONObject, now: datetime) -> list[object]:
    return [name(obj), ",".join(at(obj, "spec", "cidrs") or ()), age_of(obj, now)]


def _ip_address(obj: JSONObject, now: datetime) -> list[object]:
    parent = at(obj, "spec", "parentRef")
    if not parent:
        return [name(obj), NONE]
    group = f".{parent['group']}" if parent.get("group") else ""
    parts = (f"{text(parent, 'resource')}{group}".lower(), text(parent, "namespace"), text(parent, "name"))
    return [name(obj), "/".join(part for part in parts if part)]


def _endpoint_slice(obj: JSONObject, now: datetime) -> list[object]:
    ports = [str(each.get("port") or each.get("name") or "*") for each in items(obj, "ports")]
    addresses = [address for each in items(obj, "endpoints") for address in each.get("addresses") or ()]
    unset = "<unset>"
    return [
        name(obj),
        text(obj, "addressType"),
        joined(ports) if ports else unset,
        joined(addresses) if addresses else unset,
        age_of(obj, now),
    ]


CELLS: Final[Mapping[str, Cells]] = {
    "endpointslices": _endpoint_slice,
    "ingressclasses": _ingress_class,
    "ingresses": _ingress,
    "ipaddresses": _ip_address,
    "networkpolicies": _network_policy,
    "servicecidrs": _service_cidr,
}
