"""What a Pod takes of its node: resources and ports.

Source: https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kubewright.apis.core.v1 import Container, Pod
from kubewright.machinery.quantity import Quantity

_CPU: Final = "cpu"


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port that a Pod takes on its node."""

    address: str
    protocol: str
    number: int

    def conflicts(self, other: HostPort) -> bool:
        if (self.protocol, self.number) != (other.protocol, other.number):
            return False
        return self.address == other.address or "0.0.0.0" in (self.address, other.address)


def requests_of(pod: Pod) -> dict[str, int]:
    """Return the resources that a Pod requests of its node.

    Init containers run one after the other, before the containers and next to the sidecars that started earlier.
    """
    total: dict[str, int] = {}
    for container in pod.spec.containers:
        _add(total, _requests(container))
    sidecars: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in pod.spec.init_containers:
        now = dict(_requests(container))
        if container.restart_policy == "Always":
            _add(total, now)
            _add(sidecars, now)
            now = sidecars
        else:
            _add(now, sidecars)
        _raise_to(most, now)
    _raise_to(total, most)
    whole = pod.spec.resources
    for name, text in whole.requests.items() if whole is not None else ():
        if name in (_CPU, "memory") or name.startswith("hugepages-"):
            total[name] = amount(name, text)
    _add(total, {name: amount(name, text) for name, text in pod.spec.overhead.items()})
    return total


@lru_cache(maxsize=1024)
def amount(resource: str, text: str) -> int:
    """Return a quantity as a number: thousandths of CPU, units of everything else."""
    quantity = Quantity.parse(text)
    return quantity.milli_value if resource == _CPU else quantity.value


def _requests(container: Container) -> Mapping[str, int]:
    if container.resources is None:
        return {}
    return {name: amount(name, text) for name, text in container.resources.requests.items()}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, number in more.items():
        total[name] = total.get(name, 0) + number


def _raise_to(total: dict[str, int], least: Mapping[str, int]) -> None:
    for name, number in least.items():
        total[name] = max(total.get(name, 0), number)


def host_ports(pod: Pod) -> Iterable[HostPort]:
    """Yield the ports that a Pod takes on its node."""
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    for container in (*pod.spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port:
                yield HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
