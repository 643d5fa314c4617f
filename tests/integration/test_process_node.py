"""Pods that run as processes, on every control plane: logs, exec and debug containers."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from integration.kubectl import KUBECTL, OVER_SPDY, Kubectl, at_terminal, kubectl_with_processes
from kubewright import ObjectMeta
from kubewright.apis.core.v1 import Node, Pod
from kubewright.http.client import HTTPClient
from kubewright.http.message import Request
from kubewright.machinery.errors import ConnectionFailed
from kubewright.models import codec
from kubewright.testing import Cluster, eventually
from kubewright_controlplane import STAND_INS, Image, ProcessNode

BUSYBOX = Image(("sh",), folders=(str(Path(KUBECTL or "/usr/bin/kubectl").parent),))
"""The stand-in, with kubectl."""
SHELL = {"name": "ephemeral-busybox", "image": "busybox", "stdin": True, "tty": True}


@pytest_asyncio.fixture
async def kubectl(
    cluster: Cluster, namespace: str, kubewright_target: str, request: pytest.FixtureRequest
) -> AsyncIterator[Kubectl]:
    images, env = {**STAND_INS, "busybox:*": BUSYBOX}, getattr(request, "param", {})
    async with kubectl_with_processes(cluster, namespace, kubewright_target, images, env=env) as kubectl:
        yield kubectl


over_both = pytest.mark.parametrize("kubectl", [{}, OVER_SPDY], ids=["websocket", "spdy"], indirect=True)
"""Runs a test over both protocols of sessions: the API server passes each on to the kubelet."""


async def pod_of(cluster: Cluster, namespace: str, **container: object) -> None:
    spec = {"containers": [{"name": "app", "image": "busybox", **container}]}
    pod = codec.from_dict(Pod, {"spec": spec})
    pod.metadata = ObjectMeta(name="p", namespace=namespace)
    await cluster.client.create(pod)


async def debug(kubectl: Kubectl) -> None:
    """Add a shell to the Pod, and wait until it runs."""
    patch = f'{{"spec": {{"ephemeralContainers": [{json.dumps(SHELL)}]}}}}'
    await kubectl("patch", "pod", "p", "--subresource=ephemeralcontainers", f"--patch={patch}")
    running = "jsonpath={.status.ephemeralContainerStatuses[0].state.running.startedAt}"

    async def check() -> None:
        assert await kubectl("get", "pod", "p", "-o", running)

    await eventually(check)


async def test_the_log_of_a_pod_is_shown_and_followed(cluster: Cluster, namespace: str, kubectl: Kubectl) -> None:
    await pod_of(cluster, namespace, command=["sh", "-c", "echo one; sleep 1; echo two; sleep 1000"])
    await kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=120s")
    process = await kubectl.start("logs", "-f", "p")
    assert process.stdout is not None
    assert [await process.stdout.readline() for _ in range(2)] == [b"one\n", b"two\n"]
    process.kill()
    await process.wait()


@over_both
async def test_a_command_runs_in_a_pod_and_kubectl_exits_with_its_status(
    cluster: Cluster, namespace: str, kubectl: Kubectl
) -> None:
    await pod_of(cluster, namespace, command=["sleep", "1000"])
    await kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=120s")
    assert await kubectl("exec", "-i", "p", "--", "sh", "-c", "read it; echo $it in $HOSTNAME", given="hello\n") == (
        "hello in p\n"
    )
    assert "exit code 3" in await kubectl("exec", "p", "--", "sh", "-c", "exit 3", fails=True)


@over_both
async def test_an_ephemeral_container_is_entered_at_a_terminal(
    cluster: Cluster, namespace: str, kubectl: Kubectl
) -> None:
    await pod_of(cluster, namespace, image="nginx")
    await debug(kubectl)
    async with at_terminal(kubectl, "exec", "-it", "p", "-c", "ephemeral-busybox", "--", "sh") as terminal:
        terminal.types("echo $((6 * 7)) in $HOSTNAME; exit 4\n")
        await terminal.shows("42 in p")
        assert await terminal.ended() == 4


@over_both
async def test_an_ephemeral_container_is_attached_to(cluster: Cluster, namespace: str, kubectl: Kubectl) -> None:
    await pod_of(cluster, namespace, image="nginx")
    await debug(kubectl)
    async with at_terminal(kubectl, "attach", "-it", "p", "-c", "ephemeral-busybox") as terminal:
        terminal.types("echo $((6 * 7))\n")
        await terminal.shows("42")


async def test_requests_of_a_pod_authenticate_as_its_service_account(
    cluster: Cluster, namespace: str, kubectl: Kubectl
) -> None:
    await pod_of(cluster, namespace, command=["sleep", "1000"])
    await kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=120s")
    folder = "$CONTAINER_SANDBOX_MOUNT_POINT/var/run/secrets/kubernetes.io/serviceaccount"
    server = "https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT"
    command = f"{KUBECTL} --server={server} --token=$(cat {folder}/token) --certificate-authority={folder}/ca.crt"
    said = await kubectl("exec", "p", "--", "sh", "-c", f"{command} auth whoami -o name -o yaml")
    assert f"system:serviceaccount:{namespace}:default" in said


async def test_only_tolerating_pods_run_on_a_process_node_and_nothing_is_left_behind(
    cluster: Cluster, namespace: str, kubewright_target: str
) -> None:
    if kubewright_target != "real":
        pytest.skip("such a node joins the real control plane")
    async with ProcessNode(cluster.config, STAND_INS) as name:
        await pod_of(cluster, namespace, image="nginx")

        async def placed() -> None:
            pod = await cluster.client.get(Pod, "p", namespace=namespace)
            assert pod.spec.node_name not in (None, name)

        await eventually(placed)
    assert name not in {node.metadata.name for node in await cluster.client.list(Node)}


async def test_the_kubelet_accepts_only_requests_of_the_api_server(cluster: Cluster, kubewright_target: str) -> None:
    if kubewright_target != "real":
        pytest.skip("such a node joins the real control plane")
    async with ProcessNode(cluster.config, STAND_INS) as name:
        node = await cluster.client.get(Node, name)
        assert node.status.daemon_endpoints is not None
        assert node.status.daemon_endpoints.kubelet_endpoint is not None
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        client = HTTPClient(f"https://127.0.0.1:{node.status.daemon_endpoints.kubelet_endpoint.port}", ssl=context)
        with pytest.raises(ConnectionFailed):
            await client.send(Request("GET", "/containerLogs/default/p/c"))
        await client.close()
