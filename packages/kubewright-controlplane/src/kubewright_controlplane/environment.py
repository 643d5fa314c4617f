"""The embedded control plane in this process: an API server with TLS on a loopback port, and its controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

from kubewright._runtime.scratch import scratch_folder
from kubewright._runtime.service import in_background
from kubewright.apis.core.v1 import ServiceAccount
from kubewright.client._config import Config, embedded_extension
from kubewright.client._transport import HandlerTransport
from kubewright.http.message import Peer, Request, Response
from kubewright.machinery.gvk import GroupVersion
from kubewright.testing._cluster import Cluster
from kubewright_controlplane import metricsserver
from kubewright_controlplane.apiserver.bootstrap import service_cidr
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.serving import ServedAPI
from kubewright_controlplane.common.network import ProcessNetwork
from kubewright_controlplane.kubelet.images import Image
from kubewright_controlplane.kubelet.processes import ProcessPods
from kubewright_controlplane.kubelet.sandbox import APIAddress
from kubewright_controlplane.kubelet.server import KubeletAPI
from kubewright_controlplane.plane import KUBELET, PROXY, ControlPlane, ControlPlaneOptions

STORAGE_MIGRATION = GroupVersion("storagemigration.k8s.io", "v1beta1")
CONTROLLER_MANAGER = Peer(common_name="system:kube-controller-manager", organizations=("system:masters",))
"""The user of the controllers, which may do anything."""


class Environment:
    """A control plane that runs while the block lasts. `async with` returns an administrator's `Cluster`.

        async with Environment() as cluster:
            await cluster.install(WebServer)
            async with Manager([reconcile], config=cluster.config):
                ...

    Two environments share nothing, and nothing is left when the block ends. Raises ConfigError if the port or the data
    folder can't be used.
    """

    def __init__(
        self,
        *,
        server: ServerOptions | None = None,
        controllers: bool = True,
        options: ControlPlaneOptions | None = None,
        images: Mapping[str, Image] | None = None,
        host_paths: Iterable[Path | str] = (),
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        """Without `controllers`, the API server runs alone, as under envtest.

        Pods of `images` run as processes on this machine: `STAND_INS`, or images with commands of your own. They may
        use `hostPath` volumes below `host_paths`.
        """
        self._server = server = server or ServerOptions()
        inside = {metricsserver.HOST: self._ask_metrics_server, **server.webhooks}
        self.served = ServedAPI(replace(server, kubelet=self._ask_kubelet, webhooks=inside), host=host, port=port)
        self._controllers = controllers
        self._options = options
        self._migrates_storage = server.is_on(STORAGE_MIGRATION)
        self._images = images
        self._host_paths = [Path(each).absolute() for each in host_paths]
        self._data = server.data
        self._kubelet: KubeletAPI | None = None
        self._pods: ProcessPods | None = None
        self._plane: ControlPlane | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Cluster:
        async with AsyncExitStack() as stack:
            network = self._reserve(stack)
            await self.served.start(self._range_of_services(network))
            stack.push_async_callback(self.served.close)
            folder = stack.enter_context(scratch_folder())
            if self._controllers:
                own = self._data or folder
                pods = ProcessPods(own / "nodes", images=self._images, host_paths=self._host_paths)
                self._pods = pods
                pods.private = lambda: (own, folder, *self.served.kubeconfigs)
                self._kubelet = KubeletAPI(pods)
                self.served.extensions = [embedded_extension(pods.images.path)]
                await self._start_controllers(stack, pods, network)
            cluster = Cluster(self._admin(folder), folder)
            stack.push_async_callback(cluster.close)
            self._stack = stack.pop_all()
        return cluster

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def reason_without_sandbox(self) -> str | None:
        """Return why Pods run as processes without a sandbox on this machine; None if they have one."""
        found = await self._pods.isolation() if self._pods is not None else None
        return found if isinstance(found, str) else None

    async def _ask_server(self, request: Request) -> Response:
        """Answer a controller. Without the wait, one that has thousands of objects to do would let nobody else run."""
        await asyncio.sleep(0)
        return await self.served.api.handle(request)

    async def _ask_kubelet(self, request: Request) -> Response:
        return await self._kubelet.handle(request) if self._kubelet is not None else Response(404)

    async def _ask_metrics_server(self, request: Request) -> Response:
        return await self._plane.metrics(request) if self._plane is not None else Response(503)

    def _reserve(self, stack: AsyncExitStack) -> ProcessNetwork:
        """Reserve addresses for Pods that run as processes, and for the Services in front of them."""
        if not self._runs(KUBELET):
            return ProcessNetwork(None)
        network = ProcessNetwork.embedded(service_cidr(self.served.api.resources))
        stack.callback(network.release)
        return network

    def _range_of_services(self, network: ProcessNetwork) -> str | None:
        """Return the cluster IPs that kube-proxy can open; None if the server's own choice remains."""
        is_chosen = self._server.service_cidr != ServerOptions.service_cidr
        return None if is_chosen or network.services is None or not self._runs(PROXY) else str(network.services)

    def _runs(self, controller: str) -> bool:
        return self._controllers and (self._options is None or controller not in self._options.disabled)

    async def _start_controllers(self, stack: AsyncExitStack, pods: ProcessPods, network: ProcessNetwork) -> None:
        ca = self.served.authority.certificate.decode()
        address = urlsplit(self.served.url)
        api = APIAddress(address.hostname or "", self.served.port)
        options = replace(
            self._options or ControlPlaneOptions(),
            ca=ca,
            sign=self.served.authority.sign,
            mint=self._mint,
            processes=pods,
            api=api,
            network=network,
            migrates_storage=self._migrates_storage,
            protects_storage="StorageObjectInUseProtection" not in self._server.disabled_admission,
        )
        self._plane = plane = ControlPlane(HandlerTransport(self._ask_server, peer=CONTROLLER_MANAGER), options)
        await stack.enter_async_context(in_background(plane, name="control plane"))

    def _mint(self, account: ServiceAccount, secret: str) -> str:
        meta, tokens = account.metadata, self.served.api.authentication.service_accounts
        return tokens.mint_for_secret(meta.namespace or "", meta.name, meta.uid, secret)

    def _admin(self, folder: Path) -> Config:
        path = folder / "admin.kubeconfig"
        self.served.write_kubeconfig(path)
        return Config.from_kubeconfig(path)
