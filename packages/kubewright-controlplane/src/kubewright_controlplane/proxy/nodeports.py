"""Opens the node ports of Services on this machine's loopback address, as kube-proxy does on a node.

A port is open while the Service has an endpoint that is a process. Nothing listens for simulated Pods. Connections are
forwarded to ready endpoints in turn, or without any to endpoints that still serve while they terminate. Only TCP is
forwarded. Other protocols, and ports that another program uses, are reported by an Event on the Service, and tried
again.

Follows https://kubernetes.io/docs/reference/networking/virtual-ips/.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from kubewright.apis.core.v1 import Service, ServicePort
from kubewright.apis.discovery.v1 import Endpoint, EndpointSlice
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.cache._store import Lister
from kubewright.controllers import Context, Controller, DeletedContext, Request, Result, Watch, controller
from kubewright_controlplane.common.network import ProcessNetwork
from kubewright_controlplane.common.selection import matching
from kubewright_controlplane.ports import LOOPBACK, process_port
from kubewright_controlplane.proxy.forwarder import Forwarder, Target

NAME: Final = "kube-proxy"
_SERVICE: Final = "kubernetes.io/service-name"
_RETRY_SECONDS: Final = 5
_RETRY: Final = Result(requeue_after=timedelta(seconds=_RETRY_SECONDS))
"""The pause before a port that another program uses is tried again."""


class NodePort(NamedTuple):
    """A port of every node."""

    number: int
    protocol: str


class NodePorts:
    """Keeps the node ports of all Services open."""

    def __init__(self, network: ProcessNetwork) -> None:
        self._network = network
        self._forwarders: dict[int, Forwarder] = {}
        self._holders: dict[int, Request] = {}
        """The Service of each port."""
        self._reported: dict[Request, set[str]] = {}
        """The problems of a Service that were reported and still exist."""

    async def run(self) -> None:
        """Wait until cancelled, then close all ports."""
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.gather(*(each.abort() for each in self._forwarders.values()))

    async def reconcile(self, ctx: Context[Service] | DeletedContext[Service]) -> Result | None:
        wanted: Mapping[NodePort, Sequence[Target]] = (
            {} if isinstance(ctx, DeletedContext) else await self._desired_ports(ctx)
        )
        for number in [port for port, holder in self._holders.items() if holder == ctx.request]:
            if NodePort(number, "TCP") not in wanted:
                self._forwarders.pop(number).close()
                del self._holders[number]
        if isinstance(ctx, DeletedContext):
            self._reported.pop(ctx.request, None)
            return None
        attempts = [await self._forward(ctx, port, targets) for port, targets in wanted.items()]
        problems = {problem for problem in attempts if problem is not None}
        self._report(ctx, problems)
        return _RETRY if problems else None

    async def _forward(self, ctx: Context[Service], port: NodePort, targets: Sequence[Target]) -> str | None:
        """Open the port and set its targets. Returns the problem if it can't be opened."""
        if port.protocol != "TCP":
            return f"Node port {port.number}/{port.protocol} is not opened: only TCP node ports are supported"
        number = port.number
        forwarder = self._forwarders.get(number)
        if forwarder is None:
            forwarder = Forwarder(LOOPBACK, number)
            try:
                await forwarder.open()
            except OSError as error:
                why = os.strerror(error.errno or errno.EADDRNOTAVAIL).lower()
                return (
                    f"Node port {number} can't be opened at {LOOPBACK}: {why}. Stop the program that uses it, such as "
                    "another control plane on this machine, or choose another port in spec.ports[].nodePort; "
                    f"it is tried again every {_RETRY_SECONDS} s"
                )
            self._forwarders[number] = forwarder
            ctx.log.info("Node port opened", port=number)
        self._holders[number] = ctx.request
        forwarder.set_targets(targets)
        return None

    async def _desired_ports(self, ctx: Context[Service]) -> Mapping[NodePort, Sequence[Target]]:
        """Return the node ports to open, and their targets."""
        ports = {
            NodePort(port.node_port, port.protocol or "TCP"): port
            for port in ctx.object.spec.ports
            if port.node_port is not None
        }
        if not ports:
            return {}
        slices = await matching(ctx, EndpointSlice, LabelSelector(match_labels={_SERVICE: ctx.request.name}))
        found = {key: list(self._endpoints(port, slices)) for key, port in ports.items()}
        return {key: _targets(endpoints) for key, endpoints in found.items() if endpoints}

    def _endpoints(self, port: ServicePort, slices: Sequence[EndpointSlice]) -> Iterator[tuple[Target, Endpoint]]:
        """Yield the endpoints of a port that are processes, with their addresses."""
        for each in slices:
            numbers = [found.port for found in each.ports if (found.name or "") == (port.name or "") and found.port]
            if each.address_type != "IPv4" or not numbers:
                continue
            for endpoint in each.endpoints:
                address = self._network.process_address(endpoint.addresses[0])
                if address is not None:
                    yield Target(address, process_port(numbers[0])), endpoint

    def _report(self, ctx: Context[Service], problems: set[str]) -> None:
        for problem in sorted(problems - self._reported.get(ctx.request, set())):
            ctx.events.warning(ctx.object, "NodePortNotOpened", problem, action="Proxy")
        if problems:
            self._reported[ctx.request] = problems
        else:
            self._reported.pop(ctx.request, None)


def _targets(endpoints: Sequence[tuple[Target, Endpoint]]) -> list[Target]:
    """Return the ready endpoints; without any, those that still serve while they terminate."""
    ready = [target for target, each in endpoints if each.conditions is None or each.conditions.ready is not False]
    if ready:
        return ready
    return [
        target
        for target, each in endpoints
        if each.conditions is not None and each.conditions.serving and each.conditions.terminating
    ]


def _of_service(each: EndpointSlice, _: Lister[Service]) -> Iterable[Request]:
    name = each.metadata.labels.get(_SERVICE)
    return [Request(each.metadata.namespace, name)] if name else []


def proxy(node_ports: NodePorts) -> Controller[Service]:
    """Return the controller `kube-proxy`."""
    watches = [Watch.mapped(EndpointSlice, _of_service)]
    declare = controller(Service, name=NAME, watches=watches, reconcile_deleted=True, workers=1)
    return declare(node_ports)
