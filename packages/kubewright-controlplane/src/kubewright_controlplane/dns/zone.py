"""The records of Services and Pods below `cluster.local`, and the names of their addresses.

Records are made for each query, from cached objects. A name has no record of a type, or does not exist: resolvers treat
these two cases differently.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from ipaddress import AddressValueError, IPv4Address
from typing import Final, NamedTuple, TypeAlias, TypeVar

from kubewright.apis.core.v1 import Service
from kubewright.apis.discovery.v1 import Endpoint, EndpointSlice
from kubewright.cache._store import Lister
from kubewright_controlplane.common.resolver import DOMAIN
from kubewright_controlplane.common.selection import LABEL, SERVICE_LABEL
from kubewright_controlplane.ports import LOOPBACK_PODS, LOOPBACK_SERVICES, POD_NETWORK

_MOST_RECORDS: Final = 250
"""The records of one name in an answer. More do not fit into an answer over UDP, and to make thousands takes long."""
_VERSION: Final = "1.1.0"
"""The version of the specification that the zone follows."""
_REVERSE: Final = ("in-addr", "arpa")
_REVERSED: Final = (LOOPBACK_PODS, LOOPBACK_SERVICES, POD_NETWORK)
"""The addresses that only this zone has names for."""

T = TypeVar("T", Service, EndpointSlice)

Name: TypeAlias = tuple[str, ...]
"""The labels of a name in lower case, without the root."""


class Record(NamedTuple):
    """A record: `("web.default.svc.cluster.local", "A", "127.134.1.7")`."""

    name: str
    type: str
    value: str


class Endpoints(NamedTuple):
    """An endpoint of a headless Service, and its ports."""

    host: str
    """Its name in the domain of the Service."""
    address: str
    ports: Sequence[tuple[str, str, int]]
    """Name, protocol and number of each port."""


class Found(NamedTuple):
    """What the zone knows of a name."""

    records: Sequence[Record] = ()
    """All records of the name, whatever their type."""
    additional: Sequence[Record] = ()
    """Records of names that occur in these records."""


class Zone:
    """Finds the records of a name."""

    def __init__(self, services: Lister[Service], slices: Lister[EndpointSlice]) -> None:
        self._services = services
        self._slices = slices

    def contains(self, name: Name) -> bool:
        """Return whether only this zone may have the name."""
        if name[-2:] == tuple(DOMAIN.split(".")):
            return True
        address = _reversed_address(name)
        return address is not None and any(address in network for network in _REVERSED)

    def find(self, name: Name) -> Found | None:
        """Return the records of a name that the zone contains; None if there is no such name."""
        address = _reversed_address(name)
        if address is not None:
            pointers = [Record(_text(name), "PTR", f"{each}.") for each in self._names_of(str(address))]
            return Found(pointers) if pointers else None
        match name[:-2]:
            case () | ("svc",) | ("pod",):
                return Found()
            case ("dns-version",):
                return Found([Record(_text(name), "TXT", f'"{_VERSION}"')])
            case (namespace, "svc" | "pod"):
                return Found() if self._services.entries(namespace=namespace) else None
            case (address_text, _, "pod"):
                pod = _dashed(address_text)
                return Found([Record(_text(name), "A", pod)]) if pod is not None else None
            case (*parts, service, namespace, "svc"):
                found = self._services.get(service, namespace)
                return self._of_service(tuple(parts), found) if found is not None else None
            case _:
                return None

    def _of_service(self, parts: Name, service: Service) -> Found | None:
        """Return the records of a name in the domain of a Service, which begins with `parts`."""
        domain = _domain_of(service)
        if service.spec.type == "ExternalName":
            target = (service.spec.external_name or "").rstrip(".")
            return Found([Record(domain, "CNAME", f"{target}.")]) if not parts else None
        if service.spec.cluster_ip == "None":
            is_host = bool(parts) and not parts[0].startswith("_")
            return _of_headless(parts, domain, self._endpoints(service, ".".join(parts) if is_host else None))
        return _of_cluster_ip(parts, domain, service)

    def _endpoints(self, service: Service, host: str | None) -> Sequence[Endpoints]:
        """Return ready endpoints of a Service in random order, `_MOST_RECORDS` at most: of this host, or of all."""
        namespace, name = service.metadata.namespace, service.metadata.name
        keys = self._slices.keys_by_index(LABEL, f"{namespace}/{SERVICE_LABEL}={name}")
        found: list[tuple[EndpointSlice, Endpoint]] = []
        for key in random.sample(keys, len(keys)):
            each = self._slices.get(key.name, key.namespace)
            if each is not None and each.address_type == "IPv4":
                found += [(each, endpoint) for endpoint in each.endpoints if _is_wanted(endpoint, host)]
            if len(found) >= _MOST_RECORDS:
                break
        return [
            Endpoints(_host_of(endpoint), endpoint.addresses[0], _ports_of(each))
            for each, endpoint in random.sample(found, min(len(found), _MOST_RECORDS))
        ]

    def _names_of(self, address: str) -> Iterator[str]:
        """Yield the names of an address: of the Service with this cluster IP, or of an endpoint."""
        for service in _containing(self._services, address):
            if address in service.spec.cluster_ips:
                yield _domain_of(service)
        for each in _containing(self._slices, address):
            name, namespace = each.metadata.labels.get(SERVICE_LABEL), each.metadata.namespace
            for endpoint in each.endpoints if name else ():
                if address in endpoint.addresses:
                    yield f"{_host_of(endpoint)}.{name}.{namespace}.svc.{DOMAIN}"


def _containing(objects: Lister[T], text: str) -> Iterator[T]:
    """Yield the objects whose documents contain a text. The others are not decoded."""
    for entry in objects.entries():
        if f'"{text}"'.encode() in entry.data:
            yield entry.decode()


def _is_wanted(endpoint: Endpoint, host: str | None) -> bool:
    is_ready = endpoint.conditions is None or endpoint.conditions.ready is not False
    return is_ready and host in (None, _host_of(endpoint))


def _of_cluster_ip(parts: Name, domain: str, service: Service) -> Found | None:
    own = Record(domain, "A", service.spec.cluster_ip or "")
    ports = [(each.name or "", each.protocol or "TCP", each.port) for each in service.spec.ports[:_MOST_RECORDS]]
    if not parts:
        return Found([own, *(Record(domain, "SRV", f"0 100 {number} {domain}.") for *_, number in ports)], [own])
    name = f"{'.'.join(parts)}.{domain}"
    found = [Record(name, "SRV", f"0 100 {port[2]} {domain}.") for port in ports if _is_port(parts, port)]
    return Found(found, [own]) if found else None


def _of_headless(parts: Name, domain: str, endpoints: Sequence[Endpoints]) -> Found | None:
    weight = max(1, 100 // max(1, len(endpoints)))
    hosts = [Record(f"{each.host}.{domain}", "A", each.address) for each in endpoints]
    name = ".".join((*parts, domain))
    services = [
        Record(name, "SRV", f"0 {weight} {port[2]} {each.host}.{domain}.")
        for each in endpoints
        for port in each.ports
        if not parts or _is_port(parts, port)
    ][:_MOST_RECORDS]
    if not parts:
        return Found([*(Record(domain, "A", each.address) for each in endpoints), *services], hosts)
    if services:
        return Found(services, hosts)
    own = [each for each in hosts if each.name == name]
    return Found(own) if own else None


def _is_port(parts: Name, port: tuple[str, str, int]) -> bool:
    """Return whether these labels, such as `_http._tcp`, are those of a port with a name."""
    name, protocol, _ = port
    return bool(name) and parts == (f"_{name}", f"_{protocol.lower()}")


def _domain_of(service: Service) -> str:
    return f"{service.metadata.name}.{service.metadata.namespace}.svc.{DOMAIN}"


def _host_of(endpoint: Endpoint) -> str:
    return endpoint.hostname or endpoint.addresses[0].replace(".", "-")


def _ports_of(each: EndpointSlice) -> Sequence[tuple[str, str, int]]:
    return [(port.name or "", port.protocol or "TCP", port.port) for port in each.ports if port.port]


def _dashed(text: str) -> str | None:
    """Return the address that a name such as `127-64-0-7` stands for."""
    try:
        return str(IPv4Address(text.replace("-", ".")))
    except AddressValueError:
        return None


def _reversed_address(name: Name) -> IPv4Address | None:
    if name[-2:] != _REVERSE or len(name) != 6:
        return None
    try:
        return IPv4Address(".".join(reversed(name[:4])))
    except AddressValueError:
        return None


def _text(name: Name) -> str:
    return ".".join(name)
