"""Properties of the real control plane that other tests rely on."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from kubewright import Client, ObjectMeta
from kubewright.apis.core.v1 import Container, Pod, PodSpec, ServiceAccount
from kubewright.testing import Cluster, eventually, gone
from kubewright_controlplane import STAND_INS
from kubewright_controlplane.real import RealControlPlane


async def test_pods_go_to_the_nodes_that_there_are_however_slow_the_scheduler_is(
    kubewright_target: str, tmp_path: Path
) -> None:
    if kubewright_target != "real":
        pytest.skip("needs the real control plane: --kubewright-target=real")
    async with RealControlPlane() as control_plane:
        cluster = Cluster(control_plane.config, tmp_path)
        await eventually(cluster.client.get, ServiceAccount, "default", namespace="default")
        for round in range(5):
            halt_for_a_second(control_plane.pids["kube-scheduler"])
            async with cluster.images(STAND_INS):
                assert (await node_of(cluster.client, f"within-{round}")).startswith("processes-")
                halt_for_a_second(control_plane.pids["kube-scheduler"])
            assert (await node_of(cluster.client, f"after-{round}")).startswith("node-")
        await cluster.close()


async def test_a_slow_node_does_not_delete_a_recreated_pod(
    kubewright_target: str,
) -> None:
    if kubewright_target != "real":
        pytest.skip("needs the real control plane: --kubewright-target=real")
    async with RealControlPlane() as control_plane:
        client, nodes = Client(control_plane.config), control_plane.pids["kwok"]
        await eventually(client.get, ServiceAccount, "default", namespace="default")
        await client.create(pod("web"))
        await is_ready(client, "web")
        os.kill(nodes, signal.SIGSTOP)
        await client.delete(Pod, "web", namespace="default", grace_period=0)
        await gone(client.get, Pod, "web", namespace="default")
        again = await client.create(pod("web"))
        last = await client.create(pod("last"))
        os.kill(nodes, signal.SIGCONT)
        await is_ready(client, "web")
        await client.delete(last, grace_period=30)  # its node needs time
        await gone(client.get, Pod, "last", namespace="default")
        assert (await client.get(Pod, "web", namespace="default")).metadata.uid == again.metadata.uid
        await client.close()


def halt_for_a_second(process: int) -> None:
    os.kill(process, signal.SIGSTOP)
    asyncio.get_running_loop().call_later(1, os.kill, process, signal.SIGCONT)


async def node_of(client: Client, name: str) -> str:
    """Return the node of a new Pod."""

    async def check() -> str:
        node = (await client.get(Pod, name, namespace="default")).spec.node_name
        assert node
        return node

    await client.create(pod(name))
    return await eventually(check)


def pod(name: str) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodSpec(containers=[Container(name="web", image="nginx")]),
    )


async def is_ready(client: Client, name: str) -> None:
    async def check() -> None:
        conditions = (await client.get(Pod, name, namespace="default")).status.conditions
        assert ("Ready", "True") in [(each.type, each.status) for each in conditions]

    await eventually(check)
