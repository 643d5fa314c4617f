"""NetworkPolicies. Follows k8s.io/kubernetes pkg/apis/networking."""

from __future__ import annotations

import ipaddress
from typing import Final

from kubewright.machinery.fields import FieldError, forbidden, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.core import addresses
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Strategy

_TYPES: Final = ("Ingress", "Egress")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_SELECTORS: Final = ("podSelector", "namespaceSelector")


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
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for index, rule in enumerate(spec.get(direction) or ()):
                faults += _rule_faults(f"spec.{direction}[{index}]", rule, peers)
        types = spec.get("policyTypes") or []
        if len(types) > len(_TYPES):
            return [*faults, invalid("spec.policyTypes", types, "may not specify more than two policyTypes")]
        for index, kind in enumerate(types):
            if kind not in _TYPES:
                faults.append(not_supported(f"spec.policyTypes[{index}]", kind, _TYPES))
        return faults


def _rule_faults(path: str, rule: JSONObject, peers: str) -> list[FieldError]:
    faults: list[FieldError] = []
    for index, port in enumerate(rule.get("ports") or ()):
        faults += _port_faults(f"{path}.ports[{index}]", port)
    for index, peer in enumerate(rule.get(peers) or ()):
        faults += _peer_faults(f"{path}.{peers}[{index}]", peer)
    return faults


def _port_faults(path: str, port: JSONObject) -> list[FieldError]:
    faults: list[FieldError] = []
    if port["protocol"] not in _PROTOCOLS:
        faults.append(not_supported(f"{path}.protocol", port["protocol"], _PROTOCOLS))
    at, first, last = f"{path}.endPort", port.get("port"), port.get("endPort")
    if first is not None:
        faults += checks.port(f"{path}.port", first)
    if last is None:
        return faults
    if first is None:
        return [*faults, invalid(at, last, "may not be specified when `port` is not specified")]
    if isinstance(first, str):
        return [*faults, invalid(at, last, "may not be specified when `port` is non-numeric")]
    if last < first:
        faults.append(invalid(at, first, "must be greater than or equal to `port`"))
    return faults + checks.port(at, last)


def _peer_faults(path: str, peer: JSONObject) -> list[FieldError]:
    faults: list[FieldError] = []
    for field in _SELECTORS:
        faults += checks.label_selector(f"{path}.{field}", peer.get(field))
    selects, block = any(peer.get(field) is not None for field in _SELECTORS), peer.get("ipBlock")
    if block is not None:
        faults += _block_faults(f"{path}.ipBlock", block)
        if selects:
            faults.append(forbidden(path, "may not specify both ipBlock and another peer"))
    elif not selects:
        faults.append(required(path, "must specify a peer"))
    return faults


def _block_faults(path: str, block: JSONObject) -> list[FieldError]:
    if not block.get("cidr"):
        return [required(f"{path}.cidr")]
    faults = addresses.cidr_faults(f"{path}.cidr", block["cidr"])
    if faults:
        return faults
    whole = ipaddress.ip_network(block["cidr"], strict=False)
    for index, text in enumerate(block.get("except") or ()):
        at = f"{path}.except[{index}]"
        malformed = addresses.cidr_faults(at, text)
        faults += malformed
        if not malformed and not _is_part(ipaddress.ip_network(text, strict=False), whole):
            faults.append(invalid(at, text, "must be a strict subset of `cidr`"))
    return faults


def _is_part(part: addresses.Network, whole: addresses.Network) -> bool:
    return part.network_address in whole and part.prefixlen > whole.prefixlen
