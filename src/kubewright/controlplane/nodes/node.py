"""The simulated nodes themselves: registered at the start, ready for as long as the control plane runs."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from kubewright.apis.core.v1 import Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo
from kubewright.client.client import Client
from kubewright.machinery.errors import AlreadyExists
from kubewright.models.meta import ObjectMeta

_CAPACITY = {"cpu": "32", "memory": "256Gi", "pods": "1000", "ephemeral-storage": "1Ti"}
_NOT_READY = "node.kubernetes.io/not-ready"
_HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def addresses(count: int) -> dict[str, str]:
    """Names and IPs of `count` nodes."""
    return {f"node-{number}": f"10.0.0.{number}" for number in range(1, count + 1)}


async def register(client: Client, nodes: dict[str, str], version: str, now: datetime) -> None:
    """Create each node that does not exist, and report all of them ready.

    A real API server taints a new node, until the node lifecycle controller sees that it is ready.
    """
    for name, address in nodes.items():
        with suppress(AlreadyExists):  # kept from an earlier run
            await client.create(_node(name))
        node = await client.get(Node, name)
        node.status = _status(name, address, version, now)
        node = await client.update_status(node)
        taints = [each for each in node.spec.taints if each.key != _NOT_READY]
        if taints != node.spec.taints:
            node.spec.taints = taints
            await client.update(node)


def _node(name: str) -> Node:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "type": "simulated",
    }
    return Node(metadata=ObjectMeta(name=name, labels=labels))


def _status(name: str, address: str, version: str, now: datetime) -> NodeStatus:
    return NodeStatus(
        capacity=dict(_CAPACITY),
        allocatable=dict(_CAPACITY),
        addresses=[NodeAddress(type="InternalIP", address=address), NodeAddress(type="Hostname", address=name)],
        conditions=[
            NodeCondition(
                type=kind,
                status=status,
                reason=reason,
                message=message,
                last_heartbeat_time=now,
                last_transition_time=now,
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
