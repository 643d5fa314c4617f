"""Opens the cluster IPs and node ports of Services on this machine, as kube-proxy does on a node.

An address is open while the Service has an endpoint that is ready, or without any one that still serves while it
terminates. Nothing listens for simulated Pods. TCP and UDP are forwarded. Other protocols, and addresses that can't be
opened, are reported by an Event on the Service, and tried again. All Pods are on this machine, so the traffic policies
`Local` and `Cluster` are the same.

Follows https://kubernetes.io/docs/reference/networking/virtual-ips/.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from ipaddress import IPv4Network, ip_address
from typing import Final, NamedTuple, Protocol

from kubewright.apis.core.v1 import Service, ServicePort
from kubewright.apis.discovery.v1 import EndpointSlice
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.cache._store import Lister
from kubewright.controllers import Context, Controller, DeletedContext, Request, Result, Watch, controller
from kubewright.controllers.sources import Channel
from kubewright_controlplane.common.budget import SocketBudget
from kubewright_controlplane.common.listening import hosts_listening
from kubewright_controlplane.common.network import ProcessNetwork
from kubewright_controlplane.common.selection import SERVICE_LABEL, matching
from kubewright_controlplane.ports import LOOPBACK
from kubewright_controlplane.proxy.gate import ANNOTATION as CUT_OFF
from kubewright_controlplane.proxy.gate import cut_off
from kubewright_controlplane.proxy.targets import Target, Targets, targets_of
from kubewright_controlplane.proxy.tcp import TCPForwarder
from kubewright_controlplane.proxy.udp import UDPForwarder

NAME: Final = "kube-proxy"
API: Final = Request("default", "kubernetes")
"""The Service of the API server."""
_SHARE: Final = 4
"""The proxy uses at most this part of the file descriptors."""
_RETRY_SECONDS: Final = 5.0
"""The pause before an address that can't be opened is tried again."""
_FIRST_LOOK: Final = 0.1
"""The pause before the proxy looks again whether a program listens. It doubles up to `_RETRY_SECONDS`."""
_ALL_HOSTS: Final = "0.0.0.0"


class _Forwarder(Protocol):
    @property
    def has_connections(self) -> bool: ...
    def __init__(self, host: str, port: int, budget: SocketBudget) -> None: ...
    async def open(self) -> None: ...
    def set_targets(self, targets: Targets) -> None: ...
    def cut_off(self, networks: tuple[IPv4Network, ...]) -> None: ...
    def close(self) -> None: ...
    async def abort(self) -> None: ...


_FORWARDERS: Final[Mapping[str, type[_Forwarder]]] = {"TCP": TCPForwarder, "UDP": UDPForwarder}


class Address(NamedTuple):
    """An address at which clients reach a port of a Service."""

    host: str
    port: int
    protocol: str

    @property
    def is_node_port(self) -> bool:
        return self.host == LOOPBACK

    def __str__(self) -> str:
        return f"{'Node' if self.is_node_port else f'Cluster IP {self.host},'} port {self.port}"


class Problem(NamedTuple):
    """Why an address can't be opened, for an Event."""

    reason: str
    note: str


class ServiceProxy:
    """Keeps the addresses of all Services open."""

    def __init__(self, network: ProcessNetwork, *, api: Target | None = None, but: Sequence[Request] = ()) -> None:
        """`api` is where the API server listens, for the Service `kubernetes` after `open_api`. The cluster IPs of the
        Services `but` are not opened.
        """
        self.changed = Channel()
        """Requests to look at a Service again."""
        self._network = network
        self._api = api
        self._api_is_open = False
        self._but = but
        self._budget = SocketBudget("kubewright.proxy", "Proxy is full", _SHARE)
        self._forwarders: dict[Address, _Forwarder] = {}
        self._closed: list[_Forwarder] = []
        """Those that no longer listen, and still have connections."""
        self._holders: dict[Address, Request] = {}
        """The Service of each address."""
        self._reported: dict[Request, set[Problem]] = {}
        """The problems of a Service that were reported and still exist."""
        self._looks: dict[Request, float] = {}
        """The pauses of Services whose programs do not listen yet."""

    async def run(self) -> None:
        """Wait until cancelled, then close all addresses."""
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.gather(*(each.abort() for each in (*self._forwarders.values(), *self._closed)))

    def open_api(self) -> None:
        """Open the cluster IP of the API server from now on."""
        self._api_is_open = True
        self.changed.send(API)

    async def reconcile(self, ctx: Context[Service] | DeletedContext[Service]) -> Result | None:
        wanted: Mapping[Address, Targets] = {} if isinstance(ctx, DeletedContext) else await self._wanted(ctx)
        for address in [each for each, holder in self._holders.items() if holder == ctx.request]:
            if address not in wanted:
                self._close(address)
        if isinstance(ctx, DeletedContext):
            self._reported.pop(ctx.request, None)
            self._looks.pop(ctx.request, None)
            return None
        ready = {address: targets for address, targets in wanted.items() if self._may_open(address, targets)}
        attempts = [await self._forward(ctx, address, targets) for address, targets in ready.items()]
        problems = {problem for problem in attempts if problem is not None} | self._cut_off(ctx, ready)
        self._report(ctx, problems)
        return self._next_look(ctx.request, waits=len(ready) < len(wanted), has_problems=bool(problems))

    def _close(self, address: Address) -> None:
        del self._holders[address]
        forwarder = self._forwarders.pop(address)
        forwarder.close()
        self._closed = [each for each in (*self._closed, forwarder) if each.has_connections]

    def _next_look(self, service: Request, *, waits: bool, has_problems: bool) -> Result | None:
        if waits:
            pause = self._looks[service] = min(2 * self._looks.get(service, _FIRST_LOOK / 2), _RETRY_SECONDS)
            return Result(requeue_after=timedelta(seconds=pause))
        self._looks.pop(service, None)
        return Result(requeue_after=timedelta(seconds=_RETRY_SECONDS)) if has_problems else None

    def _may_open(self, address: Address, targets: Targets) -> bool:
        """Return whether the programs of the targets keep their ports if the address is opened.

        A program that listens on all interfaces could not start while its port is open at a cluster IP. So such a port
        is opened only when a program listens already.
        """
        same = [each.host for each in targets.known if each.port == address.port]
        if address.is_node_port or address in self._forwarders or address.protocol not in _FORWARDERS or not same:
            return True
        return bool(hosts_listening(address.protocol, address.port) & {*same, _ALL_HOSTS})

    async def _forward(self, ctx: Context[Service], address: Address, targets: Targets) -> Problem | None:
        """Open the address and set its targets. Returns the problem if it can't be opened."""
        forwarder = self._forwarders.get(address)
        if forwarder is None:
            kind = _FORWARDERS.get(address.protocol)
            if kind is None:
                why = f"{address}/{address.protocol} is not opened: only TCP and UDP are supported"
                return Problem(_reason(address), why)
            forwarder = kind(address.host, address.port, self._budget)
            try:
                await forwarder.open()
            except OSError as error:
                return Problem(_reason(address), _why(address, error))
            self._forwarders[address] = forwarder
            opened = "Node port opened" if address.is_node_port else "Cluster IP opened"
            ctx.log.info(opened, host=address.host, port=address.port, protocol=address.protocol)
        self._holders[address] = ctx.request
        forwarder.set_targets(targets)
        return None

    def _cut_off(self, ctx: Context[Service], addresses: Iterable[Address]) -> set[Problem]:
        """Cut the clients off that an annotation of the Service names. Returns the problem if it can't be read."""
        problems: set[Problem] = set()
        try:
            networks = cut_off(ctx.object.metadata.annotations)
        except ValueError as error:
            networks, why = (), f"annotation {CUT_OFF}: {error}; write addresses and networks: 127.64.0.7,127.65.0.0/16"
            problems.add(Problem("InvalidAnnotation", why))
        for each in addresses:
            if each in self._forwarders:
                self._forwarders[each].cut_off(networks)
        return problems

    async def _wanted(self, ctx: Context[Service]) -> Mapping[Address, Targets]:
        """Return the addresses to open, and their targets."""
        service = ctx.object
        addresses = {address: port for port in service.spec.ports for address in self._addresses(service, port)}
        if not addresses:
            return {}
        if ctx.request == API:
            known = [self._api] if self._api is not None and self._api_is_open else []
            return {address: Targets(known) for address in addresses if known}
        slices = await matching(ctx, EndpointSlice, LabelSelector(match_labels={SERVICE_LABEL: ctx.request.name}))
        affinity = _affinity(service)
        found = {address: targets_of(port, slices, self._network) for address, port in addresses.items()}
        return {address: Targets(targets, affinity) for address, targets in found.items() if targets}

    def _addresses(self, service: Service, port: ServicePort) -> Iterator[Address]:
        protocol = port.protocol or "TCP"
        if Request(service.metadata.namespace, service.metadata.name) not in self._but:
            for host in service.spec.cluster_ips:
                if host != "None" and ip_address(host).is_loopback:
                    yield Address(host, port.port, protocol)
        if port.node_port is not None:
            yield Address(LOOPBACK, port.node_port, protocol)

    def _report(self, ctx: Context[Service], problems: set[Problem]) -> None:
        for problem in sorted(problems - self._reported.get(ctx.request, set())):
            ctx.events.warning(ctx.object, problem.reason, problem.note, action="Proxy")
            ctx.log.warning("Service address not opened", reason=problem.note)
        if problems:
            self._reported[ctx.request] = problems
        else:
            self._reported.pop(ctx.request, None)


def _affinity(service: Service) -> float | None:
    if service.spec.session_affinity != "ClientIP":
        return None
    config = service.spec.session_affinity_config
    seconds = config.client_ip.timeout_seconds if config is not None and config.client_ip is not None else None
    return 10_800.0 if seconds is None else float(seconds)


def _reason(address: Address) -> str:
    return "NodePortNotOpened" if address.is_node_port else "ClusterIPNotOpened"


def _why(address: Address, error: OSError) -> str:
    """Return why an address can't be opened, and the way out."""
    text = os.strerror(error.errno or errno.EADDRNOTAVAIL).lower()
    again = f"it is tried again every {_RETRY_SECONDS:.0f} s"
    if address.is_node_port:
        return (
            f"{address} can't be opened at {address.host}: {text}. Stop the program that uses it, such as another "
            f"control plane on this machine, or choose another port in spec.ports[].nodePort; {again}"
        )
    if error.errno == errno.EACCES:
        return (
            f"{address}/{address.protocol} can't be opened: {text}. Choose a port from 1024 on in spec.ports[].port, "
            f"or allow it with sysctl net.ipv4.ip_unprivileged_port_start={address.port}; {again}"
        )
    if _ALL_HOSTS in hosts_listening(address.protocol, address.port):
        return (
            f"{address}/{address.protocol} can't be opened: a program listens on this port of all interfaces and gets "
            f"the connections. Let it listen on the address of its Pod, or choose another port in spec.ports[].port; "
            f"{again}"
        )
    return f"{address}/{address.protocol} can't be opened: {text}. Stop the program that uses it; {again}"


def _of_service(each: EndpointSlice, _: Lister[Service]) -> Iterable[Request]:
    name = each.metadata.labels.get(SERVICE_LABEL)
    return [Request(each.metadata.namespace, name)] if name else []


def proxy(services: ServiceProxy) -> Controller[Service]:
    """Return the controller `kube-proxy`."""
    watches = [Watch.mapped(EndpointSlice, _of_service)]
    declare = controller(
        Service, name=NAME, watches=watches, sources=[services.changed], reconcile_deleted=True, workers=1
    )
    return declare(services)
