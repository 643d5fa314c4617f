"""The targets of an open address, and the choice among them: in turn, or always the same for a client.

Follows https://kubernetes.io/docs/reference/networking/virtual-ips/.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from kubewright.apis.core.v1 import ServicePort
from kubewright.apis.discovery.v1 import Endpoint, EndpointSlice
from kubewright_controlplane.common.network import ProcessNetwork

_MAX_CLIENTS: Final = 10_000
"""The number of clients whose target is remembered."""


class Target(NamedTuple):
    """The address of a program."""

    host: str
    port: int


class Targets(NamedTuple):
    """The targets of an address."""

    known: Sequence[Target]
    affinity: float | None = None
    """The seconds for which a client keeps its target; None: each connection gets the next target."""


class Choice:
    """Chooses the target of each connection."""

    def __init__(self) -> None:
        self._targets = Targets(())
        self._turn = 0
        self._clients: OrderedDict[str, tuple[Target, float]] = OrderedDict()
        """The targets of clients, and when each was used last. The client that was seen last is the last one."""

    def set(self, targets: Targets) -> None:
        self._targets = targets
        if targets.affinity is None:
            self._clients.clear()

    def __contains__(self, target: Target) -> bool:
        return target in self._targets.known

    def order(self, client: str, now: float) -> Sequence[Target]:
        """Return the targets for a connection from the address `client`, the preferred one first."""
        known = self._targets.known
        first = self._turn % len(known) if known else 0
        self._turn += 1
        order = [*known[first:], *known[:first]]
        kept = self._kept(client, now)
        if kept is not None and kept in order:
            order.remove(kept)
            order.insert(0, kept)
        return order

    def connected(self, client: str, target: Target, now: float) -> None:
        """Note that a connection from `client` went to `target`."""
        if self._targets.affinity is None:
            return
        self._clients[client] = target, now
        self._clients.move_to_end(client)
        if len(self._clients) > _MAX_CLIENTS:
            self._clients.popitem(last=False)

    def _kept(self, client: str, now: float) -> Target | None:
        seconds, found = self._targets.affinity, self._clients.get(client)
        return found[0] if seconds is not None and found is not None and now - found[1] < seconds else None


def targets_of(port: ServicePort, slices: Sequence[EndpointSlice], network: ProcessNetwork) -> Sequence[Target]:
    """Return where connections to a port of a Service go: to ready endpoints.

    Without any, they go to endpoints that still serve while they terminate. A simulated Pod is not a target.
    """
    found = [
        (target, endpoint)
        for each in slices
        if each.address_type == "IPv4"
        for number in _numbers(port, each)
        for endpoint in each.endpoints
        if (target := _target(endpoint, number, network)) is not None
    ]
    ready = [target for target, each in found if each.conditions is None or each.conditions.ready is not False]
    leaving = [target for target, each in found if _still_serves(each)]
    return list(dict.fromkeys(ready or leaving))


def _numbers(port: ServicePort, each: EndpointSlice) -> Sequence[int]:
    """Return the port of the endpoints in a slice; nothing if they do not have it."""
    name, protocol = port.name or "", port.protocol or "TCP"
    same = (found for found in each.ports if (found.name or "") == name and (found.protocol or "TCP") == protocol)
    return [found.port for found in same if found.port][:1]


def _target(endpoint: Endpoint, port: int, network: ProcessNetwork) -> Target | None:
    """Return where a program of an endpoint listens; None if nothing runs there."""
    address, reference = endpoint.addresses[0], endpoint.target_ref
    found = network.process_target(address, port)
    if found is not None:
        return Target(*found)
    is_pod = reference is not None and reference.kind == "Pod"
    return Target(address, port) if not is_pod and network.leads_elsewhere(address) else None


def _still_serves(endpoint: Endpoint) -> bool:
    conditions = endpoint.conditions
    return conditions is not None and bool(conditions.serving) and bool(conditions.terminating)
