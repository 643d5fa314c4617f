"""Opens the node ports of Services on this machine's loopback address, as kube-proxy does on a node.

A port is open while the Service has an endpoint that is a Pod's process; nothing listens for simulated Pods.
Connections go to ready endpoints in turn, and while there are none to those that still serve as they end. TCP alone: of
other protocols, and of ports that another program has, an Event of the Service tells; those are tried again.

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
from kubewright.cache._lister import Lister
from kubewright.controllers import Context, Controller, DeletedContext, Request, Result, Watch, controller
from kubewright_controlplane.controllers.selection import matching
from kubewright_controlplane.kubelet.addresses import LOOPBACK, ProcessNetwork
from kubewright_controlplane.kubelet.processes.ports import port_of_process
from kubewright_controlplane.proxy.forwarder import Forwarder, Target

NAME: Final = "kube-proxy"
_SERVICE: Final = "kubernetes.io/service-name"
_RETRY_SECONDS: Final = 5
_RETRY: Final = Result(requeue_after=timedelta(seconds=_RETRY_SECONDS))
"""When a port that another program has is tried again."""


class NodePort(NamedTuple):
    """A port of every node."""

    number: int
    protocol: str


class NodePorts:
    """Keeps the node ports of all Services open, and leading to where they should."""

    def __init__(self, network: ProcessNetwork) -> None:
        self._network = network
        self._forwarders: dict[int, Forwarder] = {}
        self._holders: dict[int, Request] = {}
        """Whose port it is."""
        self._told: dict[Request, set[str]] = {}
        """What the users of a Service have been told is wrong, and still is."""

    async def run(self) -> None:
        """Until it is cancelled; then no port is open."""
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.gather(*(each.cut() for each in self._forwarders.values()))

    async def reconcile(self, ctx: Context[Service] | DeletedContext[Service]) -> Result | None:
        wanted: Mapping[NodePort, Sequence[Target]] = {} if isinstance(ctx, DeletedContext) else await self._wanted(ctx)
        for number in [port for port, holder in self._holders.items() if holder == ctx.request]:
            if NodePort(number, "TCP") not in wanted:
                self._forwarders.pop(number).close()
                del self._holders[number]
        if isinstance(ctx, DeletedContext):
            self._told.pop(ctx.request, None)
            return None
        attempts = [await self._lead(ctx, port, targets) for port, targets in wanted.items()]
        faults = {fault for fault in attempts if fault is not None}
        self._tell(ctx, faults)
        return _RETRY if faults else None

    async def _lead(self, ctx: Context[Service], port: NodePort, targets: Sequence[Target]) -> str | None:
        """Have the port open, and lead it there. Gives what is wrong when it can't be opened."""
        if port.protocol != "TCP":
            return f"Node port {port.number}/{port.protocol} is not opened: node ports are proxied for TCP alone"
        number = port.number
        forwarder = self._forwarders.get(number)
        if forwarder is None:
            forwarder = Forwarder(LOOPBACK, number)
            try:
                await forwarder.open()
            except OSError as error:
                why = os.strerror(error.errno or errno.EADDRNOTAVAIL).lower()
                return (
                    f"Node port {number} can't be opened at {LOOPBACK}: {why}. Stop the program that has it, such as "
                    "another control plane on this machine, or choose another port in spec.ports[].nodePort; "
                    f"until then it is tried every {_RETRY_SECONDS} s"
                )
            self._forwarders[number] = forwarder
            ctx.log.info("Node port opened", port=number)
        self._holders[number] = ctx.request
        forwarder.lead_to(targets)
        return None

    async def _wanted(self, ctx: Context[Service]) -> Mapping[NodePort, Sequence[Target]]:
        """The node ports to be open, and where each leads."""
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
        """The endpoints of a port that are processes of Pods, and where these are."""
        for each in slices:
            numbers = [found.port for found in each.ports if (found.name or "") == (port.name or "") and found.port]
            if each.address_type != "IPv4" or not numbers:
                continue
            for endpoint in each.endpoints:
                address = self._network.process_of(endpoint.addresses[0])
                if address is not None:
                    yield Target(address, port_of_process(numbers[0])), endpoint

    def _tell(self, ctx: Context[Service], faults: set[str]) -> None:
        for fault in sorted(faults - self._told.get(ctx.request, set())):
            ctx.events.warning(ctx.object, "NodePortNotOpened", fault, action="Proxy")
        if faults:
            self._told[ctx.request] = faults
        else:
            self._told.pop(ctx.request, None)


def _targets(endpoints: Sequence[tuple[Target, Endpoint]]) -> list[Target]:
    """Those that are ready; else those that end and serve until then."""
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
    """The controller named `kube-proxy`."""
    declare = controller(
        Service, name=NAME, watches=[Watch.mapped(EndpointSlice, _of_service)], reconcile_deleted=True, workers=1
    )
    return declare(node_ports)
