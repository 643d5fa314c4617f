"""Strategies of discovery.k8s.io: EndpointSlices. Follows k8s.io/kubernetes pkg/apis/discovery."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, invalid, not_supported, required, too_many
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.core import addresses
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Strategy

_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MAX_ENDPOINTS: Final = 1000
_MAX_ADDRESSES: Final = 100
_MAX_PORTS: Final = 20000


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {"endpointslices": EndpointSliceStrategy()}


class EndpointSliceStrategy(Strategy):
    def default(self, obj: JSONObject) -> None:
        obj.setdefault("endpoints", None)
        obj.setdefault("ports", None)
        for port in obj.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def validate(self, obj: JSONObject) -> list[FieldError]:
        if obj.get("addressType") not in _ADDRESS_TYPES:
            return [_address_type_fault(obj.get("addressType") or "")]
        endpoints = obj.get("endpoints") or []
        faults = _port_faults(obj.get("ports") or [])
        if len(endpoints) > _MAX_ENDPOINTS:
            return [*faults, too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)]
        for index, endpoint in enumerate(endpoints):
            faults += _endpoint_faults(f"endpoints[{index}]", endpoint, obj["addressType"])
        return faults

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return checks.immutable("addressType", obj.get("addressType"), old.get("addressType"))


def _address_type_fault(given: str) -> FieldError:
    return not_supported("addressType", given, _ADDRESS_TYPES) if given else required("addressType")


def _endpoint_faults(path: str, endpoint: JSONObject, kind: str) -> list[FieldError]:
    given = endpoint.get("addresses") or []
    if not given:
        return [required(f"{path}.addresses", "must contain at least 1 address")]
    if len(given) > _MAX_ADDRESSES:
        return [too_many(f"{path}.addresses", len(given), _MAX_ADDRESSES)]
    faults: list[FieldError] = []
    for index, address in enumerate(given):
        faults += _address_faults(f"{path}.addresses", index, address, kind)
    if endpoint.get("hostname"):
        faults += checks.named(f"{path}.hostname", endpoint["hostname"], names.dns1123_label)
    return faults


def _address_faults(path: str, index: int, address: str, kind: str) -> list[FieldError]:
    at = f"{path}[{index}]"
    if kind == "FQDN":
        return checks.named(at, address, names.dns1123_subdomain)
    faults = addresses.ip_faults(at, address)
    if faults:
        return faults
    if (":" in address) is (kind == "IPv4"):
        faults.append(invalid(path, address, f"must be an {kind} address"))
    return faults + addresses.endpoint_faults(at, address)


def _port_faults(ports: list[JSONObject]) -> list[FieldError]:
    if len(ports) > _MAX_PORTS:
        return [too_many("ports", len(ports), _MAX_PORTS)]
    faults: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        at, name = f"ports[{index}]", port.get("name") or ""
        if name:
            faults += checks.named(f"{at}.name", name, names.dns1123_label)
        if name in seen:
            faults.append(duplicate(f"{at}.name", name))
        seen.add(name)
        faults += checks.one_of(f"{at}.protocol", port.get("protocol"), _PROTOCOLS)
    return faults
