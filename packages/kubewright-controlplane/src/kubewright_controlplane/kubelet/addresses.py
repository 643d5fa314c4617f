"""Addresses of pods: each pod has one of its own while it lives."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from kubewright.apis.core.v1 import Pod
from kubewright.controllers import Request

POD_NETWORK = IPv4Network("10.244.0.0/16")
LOOPBACK = "127.0.0.1"
"""Of Pods that are processes, where the system has no addresses for each of them."""
_MANY = sys.platform == "linux"
"""Every address in 127.0.0.0/8 is this machine's."""
_LOCAL = IPv4Network("127.64.0.0/10")
_TOLD = IPv4Network("10.64.0.0/11")


@dataclass(frozen=True, slots=True)
class ProcessNetwork:
    """The addresses of Pods that are processes: what the API is told of them, and where the processes are.

    Processes are at loopback addresses: a user has no others to give. Of those in 127.64.0.0/10 the embedded API server
    is told as they are, since it takes them for endpoints of Services. A real one takes none: it is told of addresses
    in 10.64.0.0/11 that end with the same three numbers.
    """

    told: IPv4Network | None
    """What Pods get their addresses from, likely not that of another control plane; None: all are at `LOOPBACK`."""

    @classmethod
    def embedded(cls) -> ProcessNetwork:
        return cls(_some(_LOCAL) if _MANY else None)

    @classmethod
    def joined(cls) -> ProcessNetwork:
        return cls(_some(_TOLD))

    def process_of(self, address: str) -> str | None:
        """Where the process of a Pod is that the API knows at `address`; None for one that is not a process."""
        known = IPv4Address(address)
        if known in _LOCAL:
            return address
        if self.told is None or known not in self.told:
            return None
        return f"127.{address.partition('.')[2]}" if _MANY else LOOPBACK


def _some(network: IPv4Network) -> IPv4Network:
    return secrets.choice(list(network.subnets(new_prefix=16)))


class PodAddresses:
    """Hands out addresses of a network; the one that was free longest comes first."""

    def __init__(self, network: IPv4Network = POD_NETWORK) -> None:
        self._network = network
        self._by_pod: dict[Request, str] = {}
        self._used: set[str] = set()
        self._next = 1
        self.seeded = False
        """What pods had before this process began is known."""

    def seed(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            if pod.status.pod_ip and not pod.spec.host_network:
                self._take(Request(pod.metadata.namespace, pod.metadata.name), pod.status.pod_ip)
        self.seeded = True

    def of(self, pod: Request, reported: str | None) -> str:
        """The pod's address: the one it has reported, or one that is free."""
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
