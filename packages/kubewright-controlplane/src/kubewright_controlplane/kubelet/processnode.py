"""A node of processes in any cluster: what the nodes of the embedded control plane do, for another one.

The scheduler of the cluster puts Pods there, the API server asks there for logs and goes there to enter containers, and
node ports are opened on this machine. Pods whose image has no command are simulated.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final
from urllib.parse import urlsplit

from kubewright._runtime.clock import SystemClock
from kubewright.apis.core.v1 import DaemonEndpoint, Node, NodeAddress, NodeDaemonEndpoints, NodeSpec, Pod, Taint
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.cache._cache import Scope
from kubewright.client._client import Client
from kubewright.client._config import Config
from kubewright.client._patch import MergePatch
from kubewright.controllers import Context, Controller, Result, controller
from kubewright.machinery.errors import ConfigError
from kubewright.manager import Manager
from kubewright.manager._working import working
from kubewright_controlplane.controllers.rights import unrestricted
from kubewright_controlplane.controllers.selection import SCOPES
from kubewright_controlplane.kubelet.addresses import LOOPBACK, ProcessNetwork
from kubewright_controlplane.kubelet.kubelet import kubelet
from kubewright_controlplane.kubelet.node import VERSION, address_of, ready_status
from kubewright_controlplane.kubelet.processes.environment import APIAddress
from kubewright_controlplane.kubelet.processes.images import Image
from kubewright_controlplane.kubelet.processes.kubelet import ProcessKubelet
from kubewright_controlplane.kubelet.processes.runtime import ProcessRuntime
from kubewright_controlplane.kubelet.processes.server import KubeletServer
from kubewright_controlplane.proxy.nodeports import NodePorts, proxy

LABEL: Final = "kubewright.dev/processes"
"""The label of such nodes, and the key of their taint."""
_HEARTBEAT: Final = timedelta(seconds=10)
_WEBSOCKETS: Final = "ExtendWebSocketsToKubelet"
"""The feature by which a node says that API servers may hand it the WebSockets of their clients (KEP-4006)."""


class ProcessNode:
    """A node for as long as the block lasts, which gives its name.

        async with ProcessNode(config, images=STAND_INS) as node:
            ...  # Pods with nodeName, or with a nodeSelector and a toleration, run as processes of this machine

    It bears the label `kubewright.dev/processes`, and unless it is `untainted` a taint of that key: only Pods that
    tolerate it come there. At the end its Pods are deleted without grace, and nothing is left.

    The API server has to be on this machine, and from 1.36 on, for logs and `kubectl exec`; it shows a client
    certificate (`--kubelet-client-certificate`) whose user may speak with nodes. `config` has the rights of an
    administrator, and `config.ca` has signed that certificate.

    Raises ConfigError for an embedded control plane, whose nodes run processes by themselves.
    """

    def __init__(self, config: Config, images: Mapping[str, Image], *, untainted: bool = False) -> None:
        if config.image_table is not None:
            raise ConfigError(
                "the nodes of an embedded control plane run processes: Environment(images=...) says which"
            )
        self.name = f"processes-{secrets.token_hex(3)}"
        self._config = config
        self._images = images
        self._untainted = untainted
        self._client = Client(config, user_agent="kubelet", field_manager="kubelet")
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> str:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._client.close)
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kubewright-")))
            runtime = ProcessRuntime(folder, images=self._images)
            server = KubeletServer(runtime.handle, self.name, self._client, _authority(self._config), LOOPBACK)
            await server.start()
            stack.push_async_callback(server.close)
            await self._client.create(self._node())
            stack.push_async_callback(self._leave)
            manager = self._manager(runtime, server.port)
            await stack.enter_async_context(working(manager, name=f"node {self.name}"))
            await self._client.wait_for(Node, self.name, _takes_pods)
            self._stack = stack.pop_all()
        return self.name

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _node(self) -> Node:
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            LABEL: "true",
        }
        taints = [] if self._untainted else [Taint(key=LABEL, effect="NoSchedule")]
        return Node(metadata=ObjectMeta(name=self.name, labels=labels), spec=NodeSpec(taints=taints))

    def _manager(self, runtime: ProcessRuntime, port: int) -> Manager:
        clock, network = SystemClock(), ProcessNetwork.joined()
        processes = ProcessKubelet(runtime, self._client, _api(self._config), network, clock)
        node_ports = NodePorts(network)
        manager = Manager(
            unrestricted([kubelet(clock, processes), _heartbeat(port), proxy(node_ports)]),
            name="kubelet",
            config=self._config,
            scopes={
                **SCOPES,
                Node: Scope(fields={"metadata.name": self.name}),
                Pod: Scope(fields={"spec.nodeName": self.name}),
            },
            health_address="0",
            metrics_address="0",
        )
        manager.add(processes.run)
        manager.add(node_ports.run)
        return manager

    async def _leave(self) -> None:
        """Nobody runs the Pods any more: no more are to come, and those that are there go."""
        await self._client.patch(Node, MergePatch({"spec": {"unschedulable": True}}), name=self.name)
        for pod in await self._client.list(Pod, namespace="", fields={"spec.nodeName": self.name}):
            await self._client.delete(pod, grace_period=0)
        await self._client.delete(Node, self.name)


def _heartbeat(port: int) -> Controller[Node]:
    """Reports the node ready, and where its kubelet is, again and again: a cluster gives up a node that is silent."""

    @controller(Node, name="kubelet-node", workers=1)
    async def report(ctx: Context[Node]) -> Result:
        status = ready_status(ctx.object, LOOPBACK, VERSION, SystemClock().now())
        status.addresses = [NodeAddress(type="InternalIP", address=LOOPBACK)]
        status.daemon_endpoints = NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=port))
        status.declared_features = [_WEBSOCKETS]
        await ctx.update_status(status)
        return Result(requeue_after=_HEARTBEAT)

    return report


def _takes_pods(node: Node) -> bool:
    return address_of(node) is not None and all(each.key == LABEL for each in node.spec.taints)


def _api(config: Config) -> APIAddress:
    address = urlsplit(config.server)
    return APIAddress(address.hostname or "", address.port or 443)


def _authority(config: Config) -> str:
    if config.ca is None:
        raise ConfigError(f"{config.server}: no certificate authority is known by which to tell who is its API server")
    return (config.ca if isinstance(config.ca, bytes) else config.ca.read_bytes()).decode()
