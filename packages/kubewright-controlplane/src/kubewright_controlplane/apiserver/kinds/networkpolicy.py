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
        errors = checks.label_selector("spec.podSelector", spec.get("podSelector"))
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for index, rule in enumerate(spec.get(direction) or ()):
                errors += _rule_errors(f"spec.{direction}[{index}]", rule, peers)
        types = spec.get("policyTypes") or []
        if len(types) > len(_TYPES):
            return [*errors, invalid("spec.policyTypes", types, "may not specify more than two policyTypes")]
        for index, kind in enumerate(types):
            if kind not in _TYPES:
                errors.append(not_supported(f"spec.policyTypes[{index}]", kind, _TYPES))
        return errors


def _rule_errors(path: str, rule: JSONObject, peers: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, port in enumerate(rule.get("ports") or ()):
        errors += _port_errors(f"{path}.ports[{index}]", port)
    for index, peer in enumerate(rule.get(peers) or ()):
        errors += _peer_errors(f"{path}.{peers}[{index}]", peer)
    return errors


def _port_errors(path: str, port: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    if port["protocol"] not in _PROTOCOLS:
        errors.append(not_supported(f"{path}.protocol", port["protocol"], _PROTOCOLS))
    at, first, last = f"{path}.endPort", port.get("port"), port.get("endPort")
    if first is not None:
        errors += checks.port(f"{path}.port", first)
    if last is None:
        return errors
    if first is None:
        return [*errors, invalid(at, last, "may not be specified when `port` is not specified")]
    if isinstance(first, str):
        return [*errors, invalid(at, last, "may not be specified when `port` is non-numeric")]
    if last < first:
        errors.append(invalid(at, first, "must be greater than or equal to `port`"))
    return errors + checks.port(at, last)


def _peer_errors(path: str, peer: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in _SELECTORS:
        errors += checks.label_selector(f"{path}.{field}", peer.get(field))
    selects, block = any(peer.get(field) is not None for field in _SELECTORS), peer.get("ipBlock")
    if block is not None:
        errors += _block_errors(f"{path}.ipBlock", block)
        if selects:
            errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    elif not selects:
        errors.append(required(path, "must specify a peer"))
    return errors


def _block_errors(path: str, block: JSONObject) -> list[FieldError]:
    if not block.get("cidr"):
        return [required(f"{path}.cidr")]
    errors = addresses.cidr_errors(f"{path}.cidr", block["cidr"])
    if errors:
        return errors
    whole = ipaddress.ip_network(block["cidr"], strict=False)
    for index, text in enumerate(block.get("except") or ()):
        at = f"{path}.except[{index}]"
        malformed = addresses.cidr_errors(at, text)
        errors += malformed
        if not malformed and not _is_part(ipaddress.ip_network(text, strict=False), whole):
            errors.append(invalid(at, text, "must be a strict subset of `cidr`"))
    return errors


def _is_part(part: addresses.Network, whole: addresses.Network) -> bool:
    return part.network_address in whole and part.prefixlen > whole.prefixlen
