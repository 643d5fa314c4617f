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
_MAX_HINTS: Final = 8
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
            return [_address_type_error(obj.get("addressType") or "")]
        endpoints = obj.get("endpoints") or []
        errors = _port_errors(obj.get("ports") or [])
        if len(endpoints) > _MAX_ENDPOINTS:
            return [*errors, too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)]
        for index, endpoint in enumerate(endpoints):
            errors += _endpoint_errors(f"endpoints[{index}]", endpoint, obj["addressType"])
        return errors

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return checks.immutable("addressType", obj.get("addressType"), old.get("addressType"))


def _address_type_error(given: str) -> FieldError:
    return not_supported("addressType", given, _ADDRESS_TYPES) if given else required("addressType")


def _endpoint_errors(path: str, endpoint: JSONObject, kind: str) -> list[FieldError]:
    given = endpoint.get("addresses") or []
    if not given:
        return [required(f"{path}.addresses", "must contain at least 1 address")]
    if len(given) > _MAX_ADDRESSES:
        return [too_many(f"{path}.addresses", len(given), _MAX_ADDRESSES)]
    errors: list[FieldError] = []
    for index, address in enumerate(given):
        errors += _address_errors(f"{path}.addresses", index, address, kind)
    if endpoint.get("nodeName") is not None:
        errors += checks.named(f"{path}.nodeName", endpoint["nodeName"], names.dns1123_subdomain)
    if endpoint.get("hostname") is not None:
        errors += checks.named(f"{path}.hostname", endpoint["hostname"], names.dns1123_label)
    return errors + _hint_errors(f"{path}.hints", endpoint.get("hints") or {})


def _hint_errors(path: str, hints: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("forZones", "forNodes"):
        given: list[JSONObject] = hints.get(field) or []
        if len(given) > _MAX_HINTS:
            return [*errors, too_many(f"{path}.{field}", len(given), _MAX_HINTS)]
        seen: set[str] = set()
        for index, each in enumerate(given):
            at, name = f"{path}.{field}[{index}].name", each.get("name") or ""
            if name in seen:
                errors.append(duplicate(at, name))
            seen.add(name)
            errors += checks.named(at, name, names.label_value if field == "forZones" else names.dns1123_subdomain)
    return errors


def _address_errors(path: str, index: int, address: str, kind: str) -> list[FieldError]:
    at = f"{path}[{index}]"
    if kind == "FQDN":
        return checks.named(at, address, names.dns1123_subdomain)
    errors = addresses.ip_errors(at, address)
    if errors:
        return errors
    if (":" in address) is (kind == "IPv4"):
        errors.append(invalid(path, address, f"must be an {kind} address"))
    return errors + addresses.endpoint_errors(at, address)


def _port_errors(ports: list[JSONObject]) -> list[FieldError]:
    if len(ports) > _MAX_PORTS:
        return [too_many("ports", len(ports), _MAX_PORTS)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        at, name = f"ports[{index}]", port.get("name") or ""
        if name:
            errors += checks.named(f"{at}.name", name, names.dns1123_label)
        if name in seen:
            errors.append(duplicate(f"{at}.name", name))
        seen.add(name)
        errors += checks.one_of(f"{at}.protocol", port.get("protocol"), _PROTOCOLS)
        if port.get("appProtocol") is not None:
            errors += checks.named(f"{at}.appProtocol", port["appProtocol"], names.qualified_name)
    return errors
