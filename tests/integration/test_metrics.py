"""The metrics API of an embedded control plane, as `kubectl top` reads it."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from integration.kubectl import KUBECTL, Kubectl
from kubewright._runtime.clock import SystemClock
from kubewright.apis.apiregistration.v1 import APIService
from kubewright.apis.core.v1 import Pod
from kubewright.http.message import Request
from kubewright.models import codec
from kubewright.testing import Cluster, eventually
from kubewright_controlplane import Environment, Image
from kubewright_controlplane.metricsserver import MetricsServer
from kubewright_controlplane.plane import ControlPlaneOptions

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl was not found; `make controlplane` builds it")

BUSY = """
import subprocess, sys
held = bytearray(64 << 20)
subprocess.run([sys.executable, "-S", "-c", "while True: pass"])
"""
IMAGES = {"registry.test/busy": Image((sys.executable, "-S", "-c", BUSY))}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Cluster]:
    async with Environment(options=ControlPlaneOptions(nodes=1, metrics=True), images=IMAGES) as cluster:
        pods = {
            "quiet": {"image": "nginx"},
            "stated": {"image": "nginx"},
            "busy": {"image": "registry.test/busy"},
        }
        for name, container in pods.items():
            annotations = {"simulation.kubewright.dev/cpu": "250m", "kwok.x-k8s.io/usage-memory": "100Mi"}
            document: dict[str, Any] = {
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "labels": {"app": name},
                    "annotations": annotations if name == "stated" else {},
                },
                "spec": {"containers": [{"name": "c", **container}], "terminationGracePeriodSeconds": 0},
            }
            await cluster.client.create(codec.from_dict(Pod, document))
        for name in pods:
            await cluster.client.wait_for(Pod, name, is_running, namespace="default")
        await cluster.client.wait_for(APIService, "v1beta1.metrics.k8s.io", is_available)
        yield cluster


def is_running(pod: Pod) -> bool:
    return pod.status.phase == "Running"


def is_available(service: APIService) -> bool:
    return any(each.type == "Available" and each.status == "True" for each in service.status.conditions)


def amounts(table: str) -> dict[str, tuple[int, int]]:
    """Return the thousandths of cores and the MiB in each row of `kubectl top pods`."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return {row[-3]: (int(row[-2].removesuffix("m")), int(row[-1].removesuffix("Mi"))) for row in rows}


@pytest.mark.asyncio(loop_scope="module")
async def test_kubectl_top_shows_what_pods_and_nodes_use(served: Cluster) -> None:
    kubectl = Kubectl(served.kubeconfig(), "default")

    async def is_busy() -> dict[str, tuple[int, int]]:
        found = amounts(await kubectl("top", "pods"))
        assert found["busy"][0] > 50, found
        assert found["busy"][1] >= 64, found
        return found

    found = await eventually(is_busy)
    assert (found["quiet"], found["stated"]) == ((1, 1), (250, 100))
    assert amounts(await kubectl("top", "pods", "-l", "app=stated", "--containers")) == {"c": (250, 100)}
    [row] = (await kubectl("top", "nodes", "--no-headers")).splitlines()
    name, cpu, _, memory, _ = row.split()
    assert name == "node-1"
    assert int(cpu.removesuffix("m")) > 251 + 50
    assert int(memory.removesuffix("Mi")) >= 101 + 64
    refused = await kubectl("top", "pod", "nobody", fails=True)
    assert 'podmetrics.metrics.k8s.io "default/nobody" not found' in refused


@pytest.mark.asyncio(loop_scope="module")
async def test_the_metrics_api_is_a_part_of_the_cluster(served: Cluster) -> None:
    kubectl = Kubectl(served.kubeconfig(), "default")
    listed = await kubectl("api-resources", "--api-group=metrics.k8s.io", "--no-headers")
    assert [line.split() for line in listed.splitlines()] == [
        ["nodes", "metrics.k8s.io/v1beta1", "false", "NodeMetrics"],
        ["pods", "metrics.k8s.io/v1beta1", "true", "PodMetrics"],
    ]
    found = json.loads(await kubectl("get", "--raw", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/stated"))
    assert found["containers"] == [{"name": "c", "usage": {"cpu": "250000000n", "memory": "102400Ki"}}]
    server = MetricsServer(served.client, SystemClock(), None)
    empty = await server.handle(Request("GET", "/apis/metrics.k8s.io/v1beta1/namespaces//pods"))
    assert empty.status == 404  # the API server checks the permission for `namespaces/pods`
