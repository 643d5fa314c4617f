"""Pods whose creator has chosen the node: the kubelet rejects those that do not fit, as their users see it."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright import ObjectMeta
from kubewright.apis.core.v1 import Event, Node, Pod
from kubewright.models import codec
from kubewright.testing import Cluster, eventually


async def settled(cluster: Cluster, namespace: str, node: Node, name: str, **spec: Any) -> Pod:
    """Create a Pod on a node. Returns it once it runs or has failed."""
    container = {"name": "c", "image": "example.com/simulated"} | spec.pop("container", {})
    document = {"spec": {"nodeName": node.metadata.name, "containers": [container], **spec}}
    pod = codec.from_dict(Pod, document)
    pod.metadata = ObjectMeta(name=name, namespace=namespace)
    await cluster.client.create(pod)

    async def check() -> Pod:
        found = await cluster.client.get(Pod, name, namespace=namespace)
        assert found.status.phase in ("Running", "Failed")
        return found

    return await eventually(check)


async def test_a_node_rejects_a_pod_that_does_not_fit(cluster: Cluster, namespace: str, kubewright_target: str) -> None:
    if kubewright_target != "embedded":
        pytest.skip("the simulated nodes of the real control plane reject no Pods")
    node = (await cluster.client.list(Node)).items[0]
    port = {"ports": [{"containerPort": 80, "hostPort": 31999}]}
    fits = await settled(cluster, namespace, node, "fits", container=port)
    assert fits.status.phase == "Running"
    requests = {"resources": {"requests": {"cpu": "9k"}}}
    for name, reason, message, spec in (
        (
            "large",
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 9000000, used: ",
            {"container": requests},
        ),
        (
            "port",
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
            {"container": port},
        ),
        (
            "elsewhere",
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
            {"nodeSelector": {"kubewright.dev/none": "x"}},
        ),
    ):
        status = (await settled(cluster, namespace, node, name, **spec)).status
        assert (status.phase, status.reason) == ("Failed", reason)
        assert (status.message or "").startswith(f"Pod was rejected: {message}")

    async def reported() -> None:
        events = await cluster.client.list(Event, namespace=namespace)
        assert {"OutOfcpu", "NodePorts", "NodeAffinity"} <= {each.reason for each in events}

    await eventually(reported)
