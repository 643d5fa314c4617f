"""Endpoints, the older form of EndpointSlices. Follows k8s.io/kubernetes pkg/apis/core/validation."""

from __future__ import annotations

from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.core import addresses
from kubewright_controlplane.apiserver.kinds.generic import UpsertStrategy
from kubewright_controlplane.apiserver.registry import checks

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")


class EndpointsStrategy(UpsertStrategy):
    deprecation_warning = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"

    def default(self, obj: JSONObject) -> None:
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                port.setdefault("protocol", "TCP")

    def validate(self, obj: JSONObject) -> list[FieldError]:
        errors: list[FieldError] = []
        for index, subset in enumerate(obj.get("subsets") or ()):
            path = f"subsets[{index}]"
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
            for kind in ("addresses", "notReadyAddresses"):
                for place, address in enumerate(subset.get(kind) or ()):
                    at, ip = f"{path}.{kind}[{place}].ip", address.get("ip") or ""
                    errors += addresses.ip_errors(at, ip)
                    errors += addresses.host_errors(f"{path}.{kind}[{place}]", address)
                    errors += addresses.endpoint_errors(at, ip)
            ports = subset.get("ports") or []
            for place, port in enumerate(ports):
                errors += _port_errors(f"{path}.ports[{place}]", port, named=len(ports) > 1)
        return errors


def _port_errors(path: str, port: JSONObject, *, named: bool) -> list[FieldError]:
    name = port.get("name") or ""
    errors = checks.named(f"{path}.name", name, names.dns1123_label) if name else []
    if named and not name:
        errors.append(required(f"{path}.name"))
    errors += checks.port(f"{path}.port", port.get("port"))
    errors += checks.one_of(f"{path}.protocol", port.get("protocol"), _PROTOCOLS)
    if port.get("appProtocol") is not None:
        errors += checks.named(f"{path}.appProtocol", port["appProtocol"], names.qualified_name)
    return errors
