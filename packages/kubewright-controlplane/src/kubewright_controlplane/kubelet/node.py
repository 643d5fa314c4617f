"""Simulated nodes: each Node becomes ready and stays ready.

Follows kwok's default stages, which manage every node.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from ipaddress import IPv4Network
from typing import Final

from kubewright._runtime.clock import Clock
from kubewright.apis.core.v1 import Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.client._client import Client
from kubewright.controllers import Context, Controller, controller
from kubewright.machinery.errors import AlreadyExists
from kubewright_controlplane.common.nodes import PROCESSES

VERSION: Final = "v1.36.1"
"""The default version that nodes report."""
NODE_NETWORK: Final = IPv4Network("10.0.0.0/16")
_CAPACITY: Final = {"cpu": "1k", "memory": "1Ti", "pods": "1M", "ephemeral-storage": "100Ti"}
"""What a node offers that states no capacity: enough for almost any test."""
_HEALTHY: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


async def register(client: Client, count: int) -> None:
    """Create the initial nodes of a cluster: `node-1` and so on."""
    for number in range(1, count + 1):
        name = f"node-{number}"
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux",
            "beta.kubernetes.io/arch": "amd64",
            "type": "simulated",
        }
        with suppress(AlreadyExists):  # kept from an earlier run
            await client.create(Node(metadata=ObjectMeta(name=name, labels=labels)))


def address_of(node: Node) -> str | None:
    """Return the IP of a node; None if the node is not ready."""
    if not any(each.type == "Ready" and each.status == "True" for each in node.status.conditions):
        return None
    return next((each.address for each in node.status.addresses if each.type == "InternalIP"), None)


def ready_status(node: Node, address: str, version: str, now: datetime) -> NodeStatus:
    """Return the status of a healthy node at `address`."""
    name = node.metadata.name
    since = {(each.type, each.status): each.last_transition_time for each in node.status.conditions}
    return NodeStatus(
        capacity=node.status.capacity or dict(_CAPACITY),
        allocatable=node.status.allocatable or dict(_CAPACITY),
        addresses=[NodeAddress(type="InternalIP", address=address), NodeAddress(type="Hostname", address=name)],
        conditions=[
            NodeCondition(
                type=kind,
                status=status,
                reason=reason,
                message=message,
                last_heartbeat_time=now,
                last_transition_time=since.get((kind, status)) or now,
            )
            for kind, status, reason, message in _HEALTHY
        ],
        node_info=NodeSystemInfo(
            architecture="amd64",
            boot_id="",
            container_runtime_version="simulated://1",
            kernel_version="simulated",
            kube_proxy_version="",
            kubelet_version=version,
            machine_id=name,
            operating_system="linux",
            os_image="simulated",
            system_uuid=name,
        ),
    )


class NodeReconciler:
    """Reports nodes ready."""

    def __init__(self, version: str, clock: Clock) -> None:
        self._version = version
        self._clock = clock

    async def reconcile(self, ctx: Context[Node]) -> None:
        node = ctx.object
        if address_of(node) is None and PROCESSES not in node.metadata.labels:
            taken = {each.address for other in await ctx.list(Node) for each in other.status.addresses}
            address = next(str(host) for host in NODE_NETWORK.hosts() if str(host) not in taken)
            await ctx.update_status(ready_status(node, address, self._version, self._clock.now()))


def node_controller(version: str, clock: Clock) -> Controller[Node]:
    """Return the controller that reports nodes ready, with this kubelet version."""
    return controller(Node, name="kubelet-nodes", workers=1)(NodeReconciler(version, clock))
