"""Allocation of cluster IPs and node ports.

Allocations follow the observed commits of Services, so a failed write reserves nothing and nothing leaks. The server
chooses from the upper part of each range and leaves the lower part to users who request a specific address (KEP-3070,
KEP-3668). A released address is reused last.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from kubewright.machinery.errors import InternalError
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.events import Event

_MIN_STATIC_IPS: Final = 16
_MAX_STATIC_IPS: Final = 256
_MAX_STATIC_PORTS: Final = 128
DEFAULT_SERVICE_CIDR: Final = "kubernetes"
"""The name of the ServiceCIDR that the server creates."""
_SERVICE_CIDRS: Final = "servicecidrs.networking.k8s.io"
_SHOWN_AS_FULL: Final = "range is full"


class Allocations:
    """The addresses in use by the Services of a server. An owner is the `namespace/name` of a Service.

    The stored default ServiceCIDR takes precedence over the range of the server's options.
    Two writes that wait at the same time may find the same address free. `ServiceStrategy.is_taken` finds out.
    """

    def __init__(self, resources: ResourceSet, service_cidr: str, node_ports: range) -> None:
        self.node_ports: Final = node_ports
        self._resources = resources
        self._ips: dict[str, str] = {}
        self._ports: dict[int, str] = {}
        self._held: dict[str, tuple[list[str], list[int]]] = {}
        self._use(service_cidr)
        resources.observe(_SERVICE_CIDRS, self._on_service_cidr)
        self._first_port = node_ports.start + min(max(_MIN_STATIC_IPS, len(node_ports) // 32), _MAX_STATIC_PORTS)
        self._next_port = self._first_port
        resources.observe("services", self._on_commit)

    def _use(self, cidr: str) -> None:
        self.network = ipaddress.ip_network(cidr)
        size = self.network.num_addresses - 2
        self._first_ip = min(max(_MIN_STATIC_IPS, size // 16), _MAX_STATIC_IPS) + 1
        self._next_ip = self._first_ip

    def _on_service_cidr(self, event: Event) -> None:
        if event.entry.key != DEFAULT_SERVICE_CIDR or event.type == "DELETED":
            return
        cidr: str = self._resources.decode(event.entry.data)["spec"]["cidrs"][0]
        if cidr != str(self.network):
            self._use(cidr)

    def ip_owner(self, address: str) -> str | None:
        return self._ips.get(address)

    def port_owner(self, port: int) -> str | None:
        return self._ports.get(port)

    def free_ip(self) -> str:
        """Return a free cluster IP. Raises InternalError if there is none."""
        size = self.network.num_addresses - 2
        for offset in _wrap_around(self._next_ip, self._first_ip, 1, size + 1):
            address = str(self.network[offset])
            if address not in self._ips:
                self._next_ip = offset + 1
                return address
        raise InternalError(f"failed to allocate a serviceIP: {_SHOWN_AS_FULL}")

    def free_port(self, but: set[int]) -> int:
        """Return a free node port that is not in `but`. Raises InternalError if there is none."""
        ports = self.node_ports
        for port in _wrap_around(self._next_port, self._first_port, ports.start, ports.stop):
            if port not in self._ports and port not in but:
                self._next_port = port + 1
                return port
        raise InternalError(f"failed to allocate a nodePort: {_SHOWN_AS_FULL}")

    def _on_commit(self, event: Event) -> None:
        owner = event.entry.key
        ips, ports = self._held.pop(owner, ([], []))
        for ip in ips:
            self._ips.pop(ip, None)
        for port in ports:
            self._ports.pop(port, None)
        if event.type == "DELETED":
            return
        spec = self._resources.decode(event.entry.data).get("spec") or {}
        ips, ports = cluster_ips(spec), used_ports(spec)
        self._held[owner] = (ips, ports)
        self._ips.update(dict.fromkeys(ips, owner))
        self._ports.update(dict.fromkeys(ports, owner))


def cluster_ips(spec: JSONObject) -> list[str]:
    """Return the cluster IPs of a Service."""
    return [ip for ip in spec.get("clusterIPs") or () if ip != "None"]


def used_ports(spec: JSONObject) -> list[int]:
    """Return the node ports of a Service, including its health check port."""
    ports = [port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")]
    if spec.get("healthCheckNodePort"):
        ports.append(spec["healthCheckNodePort"])
    return ports


def _wrap_around(start: int, first: int, low: int, high: int) -> Iterator[int]:
    """Yield all numbers from `low` to below `high`: first from `start` on, then from `first`, then those below
    `first`.
    """
    yield from range(start, high)
    yield from range(first, start)
    yield from range(low, first)
