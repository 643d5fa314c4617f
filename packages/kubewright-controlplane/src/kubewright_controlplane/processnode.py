"""A node in any cluster whose Pods run as processes on this machine.

The cluster's scheduler binds Pods to the node, its API server gets logs and opens sessions there, and node ports are
opened on this machine. Pods whose image has no command are simulated.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from types import TracebackType
from typing import Final
from urllib.parse import urlsplit

from kubewright._runtime.clock import SystemClock
from kubewright._runtime.scratch import scratch_folder
from kubewright._runtime.service import in_background
from kubewright.apis.core.v1 import DaemonEndpoint, Node, NodeAddress, NodeDaemonEndpoints, NodeSpec, Pod, Taint
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.cache._cache import Scope
from kubewright.client._client import Client
from kubewright.client._config import Config
from kubewright.client._patch import MergePatch
from kubewright.controllers import Context, Controller, Result, controller
from kubewright.machinery.errors import ConfigError
from kubewright.manager import Manager
from kubewright_controlplane.common.network import ProcessNetwork
from kubewright_controlplane.common.nodes import PROCESSES
from kubewright_controlplane.common.permissions import unrestricted
from kubewright_controlplane.common.selection import SCOPES
from kubewright_controlplane.kubelet.images import Image
from kubewright_controlplane.kubelet.kubelet import kubelet
from kubewright_controlplane.kubelet.node import VERSION, address_of, ready_status
from kubewright_controlplane.kubelet.processes import ProcessPods, ProcessRuntime
from kubewright_controlplane.kubelet.sandbox import APIAddress
from kubewright_controlplane.kubelet.server import KubeletAPI, KubeletServer
from kubewright_controlplane.ports import LOOPBACK
from kubewright_controlplane.proxy.services import ServiceProxy, proxy

LABEL: Final = PROCESSES
"""The label of such nodes, and the key of their taint."""
_HEARTBEAT: Final = timedelta(seconds=10)
_WEBSOCKETS: Final = "ExtendWebSocketsToKubelet"
"""The feature of a node that accepts the WebSockets of an API server's clients (KEP-4006)."""


class ProcessNode:
    """A node that exists while the block lasts. `async with` returns its name.

        async with ProcessNode(config, images=STAND_INS) as node:
            ...  # Pods with nodeName, or with a nodeSelector and a toleration, run as processes on this machine

    The node has the label `kubewright.dev/processes`, and unless it is `untainted` a taint with that key: only Pods
    that tolerate the taint are scheduled there. At the end its Pods are deleted without grace, and nothing is left.

    For logs and `kubectl exec`, the API server has to run on this machine, in version 1.36 or later, with a client
    certificate (`--kubelet-client-certificate`) that is signed by `config.ca` and whose user may access nodes.
    `config` has the permissions of an administrator.

    Raises ConfigError for an embedded control plane, whose own nodes run processes.
    """

    def __init__(self, config: Config, images: Mapping[str, Image], *, untainted: bool = False) -> None:
        if config.image_table is not None:
            raise ConfigError(
                "the nodes of an embedded control plane run processes already; pass images to Environment(images=...)"
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
            folder = stack.enter_context(scratch_folder())
            pods = ProcessPods(folder, images=self._images)
            server = KubeletServer(KubeletAPI(pods).handle, self.name, self._client, _authority(self._config), LOOPBACK)
            await server.start()
            stack.push_async_callback(server.close)
            await self._client.create(self._node())
            stack.push_async_callback(self._leave)
            manager = self._manager(pods, server.port)
            await stack.enter_async_context(in_background(manager, name=f"node {self.name}"))
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

    def _manager(self, pods: ProcessPods, port: int) -> Manager:
        clock, network = SystemClock(), ProcessNetwork.joined()
        processes = ProcessRuntime(pods, self._client, _api(self._config), network, clock)
        services = ServiceProxy(network)
        manager = Manager(
            unrestricted([kubelet(clock, processes), _heartbeat(port), proxy(services)]),
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
        manager.add(services.run)
        return manager

    async def _leave(self) -> None:
        """Cordon the node, delete its Pods, and delete the node."""
        await self._client.patch(Node, MergePatch({"spec": {"unschedulable": True}}), name=self.name)
        for pod in await self._client.list(Pod, namespace="", fields={"spec.nodeName": self.name}):
            await self._client.delete(pod, grace_period=0)
        await self._client.delete(Node, self.name)


def _heartbeat(port: int) -> Controller[Node]:
    """Report the node ready, and the port of its kubelet, periodically: a cluster evicts the Pods of a silent node."""

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
        raise ConfigError(f"{config.server}: has no certificate authority to verify clients of the node; set Config.ca")
    return (config.ca if isinstance(config.ca, bytes) else config.ca.read_bytes()).decode()
