"""Which clients reach a Service: a simulated fault of the network.

The annotation `simulation.kubewright.dev/cut-off-from` of a Service names addresses and networks, separated by commas.
While it is there, nothing is forwarded between these clients and the Service in either direction, not even over
existing connections. Datagrams are lost. The data of TCP connections arrives when the annotation is gone, like packets
that are sent again, unless one side has given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from ipaddress import IPv4Network, ip_address, ip_network
from typing import Final

ANNOTATION: Final = "simulation.kubewright.dev/cut-off-from"


class Gate:
    """Lets the connections of a Service pass, or holds them."""

    def __init__(self) -> None:
        self._closed_for: tuple[IPv4Network, ...] = ()
        self._changed = asyncio.Event()

    def close_for(self, networks: tuple[IPv4Network, ...]) -> None:
        """Hold the connections of clients in `networks`, and no others."""
        if networks != self._closed_for:
            self._closed_for = networks
            self._changed.set()
            self._changed = asyncio.Event()

    def is_open(self, client: str) -> bool:
        return not (self._closed_for and client) or not any(ip_address(client) in each for each in self._closed_for)

    async def passed(self, client: str) -> None:
        """Wait until the client is not cut off."""
        while not self.is_open(client):
            await self._changed.wait()


def cut_off(annotations: Mapping[str, str]) -> tuple[IPv4Network, ...]:
    """Return the networks in the annotation. Raises ValueError with the part that is neither address nor network."""
    parts = (each.strip() for each in annotations.get(ANNOTATION, "").split(","))
    return tuple(_network(each) for each in parts if each)


def _network(text: str) -> IPv4Network:
    found = ip_network(text)
    if not isinstance(found, IPv4Network):
        raise ValueError(f"{text!r} is not an IPv4 address or network")
    return found
