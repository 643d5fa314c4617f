"""Nodes whose kubelet is silent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kubewright.apis.coordination.v1 import Lease, LeaseSpec
from kubewright.apis.core.v1 import Node, NodeCondition, NodeStatus
from kubewright.apis.meta.v1 import MicroTime, ObjectMeta
from kubewright_controlplane import Environment
from kubewright_controlplane.plane import ControlPlaneOptions

UNREACHABLE = "node.kubernetes.io/unreachable"


def is_unreachable(node: Node) -> bool:
    taints = [(each.key, each.effect) for each in node.spec.taints]
    return (UNREACHABLE, "NoExecute") in taints and (UNREACHABLE, "NoSchedule") in taints


def conditions(node: Node) -> set[tuple[str, str | None, str | None]]:
    return {(each.status, each.reason, each.message) for each in node.status.conditions}


async def test_a_node_without_a_heartbeat_becomes_unknown() -> None:
    options = ControlPlaneOptions(disabled=["kubelet"], node_grace_seconds=0.5)
    async with Environment(options=options) as cluster:
        posted = [NodeCondition(type=each, status="True") for each in ("Ready", "DiskPressure")]
        for name in ("silent", "leased"):
            status = NodeStatus(conditions=posted)
            await cluster.client.create(Node(metadata=ObjectMeta(name=name), status=status))
        future = MicroTime.of(datetime.now(UTC) + timedelta(hours=1))
        lease = Lease(
            metadata=ObjectMeta(name="leased", namespace="kube-node-lease"), spec=LeaseSpec(renew_time=future)
        )
        await cluster.client.create(lease)
        silent = await cluster.client.wait_for(Node, "silent", is_unreachable)
        assert conditions(silent) == {
            ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."),
            ("Unknown", "NodeStatusNeverUpdated", "Kubelet never posted node status."),
        }
        leased = await cluster.client.get(Node, "leased")
        assert {each.status for each in leased.status.conditions} == {"True"}
        heartbeat = NodeCondition(type="Ready", status="True", last_heartbeat_time=datetime.now(UTC))
        silent.status.conditions = [heartbeat]
        await cluster.client.update_status(silent)
        await cluster.client.wait_for(Node, "silent", lambda node: not node.spec.taints)
