"""Addresses of Pods, and the addresses and ports of the processes behind them.

Each Pod has an address of its own while it exists. Processes of an unprivileged user can only use loopback addresses
and ports from 1024 on, so the address and port of a process may differ from those of its Pod.
"""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from kubewright.apis.core.v1 import Pod
from kubewright.controllers import Request
from kubewright_controlplane.ports import LOOPBACK, LOOPBACK_PODS, LOOPBACK_SERVICES, POD_NETWORK, process_port

_HAS_LOOPBACK_NETWORK: Final = sys.platform == "linux"
"""Every address in 127.0.0.0/8 belongs to this machine."""
_ROUTABLE_PODS: Final = IPv4Network("10.64.0.0/11")
_RESERVATION_PORT: Final = 29_999
_PREFIX: Final = 16
"""Each control plane has a subnet of this size for Pods, and one for Services."""


@dataclass(frozen=True, slots=True)
class ProcessNetwork:
    """The addresses of Pods that run as processes: in the API, and on this machine.

    The embedded API server accepts loopback addresses as endpoints of Services, so both are the same in 127.64.0.0/10.
    A real API server rejects them. It gets addresses in 10.64.0.0/11 that end with the same three numbers.
    """

    pods: IPv4Network | None
    """The addresses of Pods in the API. None: all are at `LOOPBACK`."""
    services: IPv4Network | None = None
    """The cluster IPs on which this machine can listen. None: it can listen on none."""
    _reservation: socket.socket | None = None

    @classmethod
    def embedded(cls, stored: str | None = None) -> ProcessNetwork:
        """Reserve addresses that no other control plane on this machine uses.

        `stored` is the range of cluster IPs that the control plane has used before. It is used again if possible.
        """
        if not _HAS_LOOPBACK_NETWORK:
            return cls(None)
        known = _subnets(LOOPBACK_SERVICES)
        before = IPv4Network(stored) if stored is not None and ":" not in stored else None
        preferred = known.index(before) if before is not None and before in known else None
        pods, reservation = _reserved_subnet(LOOPBACK_PODS, preferred)
        number = _subnets(LOOPBACK_PODS).index(pods)
        return cls(pods, before if preferred is not None else known[number], reservation)

    @classmethod
    def joined(cls) -> ProcessNetwork:
        """Reserve addresses as `embedded` does, for a node of a real control plane."""
        pods, reservation = _reserved_subnet(_ROUTABLE_PODS)
        return cls(pods, None, reservation)

    def release(self) -> None:
        """Release the addresses. The system releases them too when this process dies."""
        if self._reservation is not None:
            self._reservation.close()

    def process_address(self, pod_address: str) -> str | None:
        """Return the address of the process behind a Pod's address; None if no process is behind it."""
        known = IPv4Address(pod_address)
        if known in LOOPBACK_PODS:
            return pod_address
        if self.pods is None or known not in self.pods:
            return None
        return f"127.{pod_address.partition('.')[2]}" if _HAS_LOOPBACK_NETWORK else LOOPBACK

    def process_target(self, pod_address: str, port: int) -> tuple[str, int] | None:
        """Return where a process listens for a port of its Pod; None if no process is behind the address."""
        host = self.process_address(pod_address)
        return (host, process_port(port)) if host is not None else None

    def leads_elsewhere(self, address: str) -> bool:
        """Return whether Services forward to an address that is not a process's, such as another machine's.

        Nodes of other clusters leave that to the proxies of these clusters.
        """
        return self.services is not None and IPv4Address(address) not in POD_NETWORK


def _subnets(network: IPv4Network) -> list[IPv4Network]:
    return list(network.subnets(new_prefix=_PREFIX))


def _reserved_subnet(network: IPv4Network, preferred: int | None = None) -> tuple[IPv4Network, socket.socket | None]:
    """Choose a subnet at random, and reserve it on this machine by a socket at its last loopback address.

    The subnet with the index `preferred` is tried first.
    """
    subnets = _subnets(network)
    order = secrets.SystemRandom().sample(subnets, len(subnets))
    if preferred is not None:
        order.insert(0, subnets[preferred])
    for subnet in order if _HAS_LOOPBACK_NETWORK else ():
        reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            reservation.bind((f"127.{str(subnet[-1]).partition('.')[2]}", _RESERVATION_PORT))
        except OSError:
            reservation.close()
            continue
        return subnet, reservation
    return order[0], None


class PodAddresses:
    """Assigns addresses of a network. The address that was free longest is assigned first."""

    def __init__(self, network: IPv4Network = POD_NETWORK) -> None:
        self._network = network
        self._by_pod: dict[Request, str] = {}
        self._used: set[str] = set()
        self._next = 1
        self.seeded = False
        """The addresses of Pods that existed before are known."""

    def seed(self, pods: Iterable[Pod]) -> None:
        """Take the addresses that these Pods have reported."""
        for pod in pods:
            if pod.status.pod_ip and not pod.spec.host_network:
                self._take(Request(pod.metadata.namespace, pod.metadata.name), pod.status.pod_ip)
        self.seeded = True

    def of(self, pod: Request, reported: str | None) -> str:
        """Return the Pod's address: the one that it has reported, or a free one."""
        known = self._by_pod.get(pod)
        if known is not None:
            return known
        return self._take(pod, reported or self._free())

    def release(self, pod: Request) -> None:
        address = self._by_pod.pop(pod, None)
        if address is not None:
            self._used.discard(address)

    def _take(self, pod: Request, address: str) -> str:
        self._by_pod[pod] = address
        self._used.add(address)
        return address

    def _free(self) -> str:
        size = self._network.num_addresses - 2
        for _ in range(size):
            address = str(IPv4Address(int(self._network.network_address) + self._next))
            self._next = self._next % size + 1
            if address not in self._used:
                return address
        raise RuntimeError(f"all {size} addresses of the pod network {self._network} are in use")
