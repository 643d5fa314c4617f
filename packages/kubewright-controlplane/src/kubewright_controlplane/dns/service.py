"""The Service `kube-dns` and the server at its cluster IP, which starts with the first Pod that runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final

from kubewright._runtime.log import get_logger
from kubewright.apis.core.v1 import Service, ServicePort, ServiceSpec
from kubewright.apis.discovery.v1 import EndpointSlice
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.cache._client import CachedClient
from kubewright.client._client import Client
from kubewright.controllers import Request
from kubewright.machinery.errors import AlreadyExists, Invalid, KubewrightError
from kubewright.manager._events import EventWriter
from kubewright.manager._leader import identity
from kubewright_controlplane.dns.server import NameServer

_NAMESPACE: Final = "kube-system"
DNS: Final = Request(_NAMESPACE, "kube-dns")
_PORT: Final = 53
_OTHER_PORT: Final = 10_053
"""The port if this user may not open port 53. Programs do not find it by themselves."""
_DISTANCE: Final = 9
"""The cluster IP is the tenth address of the range, as in clusters of kubeadm. That of the API server is the first."""
_log = get_logger("kubewright.dns")


class ClusterDNS:
    """Creates the Service, and starts the server."""

    def __init__(self, live: Client, cached: Callable[[], CachedClient], name: str) -> None:
        """`live` reads from the server. `cached` is called when the manager runs. `name` is that of the program."""
        self._live = live
        self._cached = cached
        self._events = EventWriter(live, name, identity())
        self._starting: asyncio.Task[str | None] | None = None
        self._server: NameServer | None = None

    async def run(self) -> None:
        """Wait until cancelled, then stop the server."""
        try:
            await self._events.run()
        finally:
            if self._starting is not None:
                self._starting.cancel()
            if self._server is not None:
                await self._server.close()

    async def register(self) -> Service | None:
        """Create the Service if this machine can listen at its cluster IP. Returns the existing one, or None."""
        existing = await self._live.get_or_none(Service, DNS.name, namespace=_NAMESPACE)
        if existing is not None:
            return existing
        api = await self._live.get(Service, "kubernetes", namespace="default")
        address = ip_address(api.spec.cluster_ip or "") + _DISTANCE
        if not address.is_loopback:
            return None
        try:
            return await self._live.create(_service(str(address)))
        except (AlreadyExists, Invalid) as error:  # another task has created it, or another Service has its address
            existing = await self._live.get_or_none(Service, DNS.name, namespace=_NAMESPACE)
            if existing is None:
                _log.warning("DNS Service not created", error=str(error))
            return existing

    async def nameserver(self) -> str | None:
        """Start the server. Returns its address; None if it can't listen on the port that resolvers use."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start(), name="DNS server")
        try:
            return await asyncio.shield(self._starting)
        except KubewrightError as error:
            self._starting = None
            _log.warning("DNS server not started, retrying with the next Pod", error=str(error))
            return None

    async def _start(self) -> str | None:
        service = await self.register()
        host = service.spec.cluster_ip if service is not None else None
        if service is None or not host or host == "None" or not ip_address(host).is_loopback:
            return None
        try:
            await self._open(host, _PORT)
        except OSError as error:
            why = os.strerror(error.errno or 0).lower()
            note = (
                f"DNS server can't listen at {host}, port {_PORT}: {why}. Pods use the resolvers of this machine, "
                f"which do not know Services. Allow it with sysctl net.ipv4.ip_unprivileged_port_start={_PORT}, and "
                f"stop programs that listen on port {_PORT} of all interfaces. Until the next start, it listens on "
                f"port {_OTHER_PORT}"
            )
            self._events.warning(service, "DNSNotOpened", note, action="Start")
            _log.warning("DNS port not opened", host=host, port=_PORT, error=why)
            await self._open_other(host)
            return None
        _log.info("DNS server started", host=host, port=_PORT)
        return host

    async def _open_other(self, host: str) -> None:
        try:
            await self._open(host, _OTHER_PORT)
        except OSError as error:
            _log.warning("DNS port not opened", host=host, port=_OTHER_PORT, error=str(error))

    async def _open(self, host: str, port: int) -> None:
        cache = self._cached().cache
        server = NameServer(host, port, cache.informer(Service).lister, cache.informer(EndpointSlice).lister)
        await server.open()
        self._server = server


def _service(address: str) -> Service:
    labels = {"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"}
    ports = [
        ServicePort(name="dns", port=_PORT, protocol="UDP", target_port=_PORT),
        ServicePort(name="dns-tcp", port=_PORT, protocol="TCP", target_port=_PORT),
    ]
    return Service(
        metadata=ObjectMeta(name=DNS.name, namespace=_NAMESPACE, labels=labels),
        spec=ServiceSpec(cluster_ip=address, ports=ports),
    )
