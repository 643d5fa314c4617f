"""`kubectl port-forward` into Pods that run as processes, on every control plane."""

from __future__ import annotations

import asyncio
import base64
import struct
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from integration.kubectl import OVER_SPDY, Kubectl, kubectl_with_processes
from kubewright import ObjectMeta
from kubewright.apis.core.v1 import Pod, Service
from kubewright.models import codec
from kubewright.testing import Cluster, eventually
from kubewright_controlplane import STAND_INS, Image
from websockets_client import websocket

ECHO = """
import os, socketserver
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while data := self.rfile.read1():
            self.wfile.write(data)
        self.wfile.write(b'end')
class Server(socketserver.ThreadingTCPServer):
    request_queue_size = 64
Server((os.environ['KUBEWRIGHT_BIND_HOST'], 7000), Handler).serve_forever()
"""
IMAGES = {**STAND_INS, "registry.test/echo": Image((sys.executable, "-S", "-c", ECHO))}


@pytest_asyncio.fixture(params=[{}, OVER_SPDY], ids=["websocket", "spdy"])
async def kubectl(
    cluster: Cluster, namespace: str, kubewright_target: str, request: pytest.FixtureRequest
) -> AsyncIterator[Kubectl]:
    async with kubectl_with_processes(cluster, namespace, kubewright_target, IMAGES, env=request.param) as kubectl:
        yield kubectl


async def run(cluster: Cluster, namespace: str, image: str, port: int) -> None:
    probe = {"tcpSocket": {"port": port}, "periodSeconds": 1}
    spec = {"containers": [{"name": "c", "image": image, "readinessProbe": probe}]}
    pod = codec.from_dict(Pod, {"spec": spec})
    pod.metadata = ObjectMeta(name="p", namespace=namespace, labels={"app": "p"})
    await cluster.client.create(pod)

    async def ready() -> None:
        found = await cluster.client.get(Pod, "p", namespace=namespace)
        assert any(each.type == "Ready" and each.status == "True" for each in found.status.conditions)

    await eventually(ready)


@asynccontextmanager
async def forwarded(kubectl: Kubectl, port: int, to: str = "pod/p") -> AsyncGenerator[int]:
    """Run port-forward for the duration of the block. Yields the local port."""
    process = await kubectl.start("port-forward", to, f":{port}")
    assert process.stdout is not None
    said = (await process.stdout.readline()).decode()  # Forwarding from 127.0.0.1:40000 -> 80
    try:
        yield int(said.split(":")[1].split()[0])
    finally:
        process.terminate()
        await process.wait()


async def exchange(port: int, given: bytes) -> bytes:
    """Send data to a port. Returns everything that is sent back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(given)
    writer.write_eof()
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_a_page_is_served_through_port_forward(cluster: Cluster, namespace: str, kubectl: Kubectl) -> None:
    await run(cluster, namespace, "nginx:1.23.1", 80)
    async with forwarded(kubectl, 80) as port:
        for _ in range(3):
            assert b"<h1>nginx:1.23.1</h1>" in await exchange(port, b"GET / HTTP/1.0\r\n\r\n")


async def test_many_connections_transfer_large_data_both_ways(
    cluster: Cluster, namespace: str, kubectl: Kubectl
) -> None:
    await run(cluster, namespace, "registry.test/echo", 7000)
    given = [bytes((number,)) * 300_000 for number in range(12)]
    async with forwarded(kubectl, 7000) as port:
        said = await asyncio.gather(*(exchange(port, each) for each in given))
    assert said == [each + b"end" for each in given]


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v4.base64.channel.k8s.io", ""])
async def test_a_websocket_has_two_channels_for_each_port(
    cluster: Cluster, namespace: str, kubewright_target: str, protocol: str
) -> None:
    if kubewright_target == "kubeconfig":
        pytest.skip("this cluster runs real images")
    is_text = "base64" in protocol

    def message(channel: int, data: bytes) -> bytes | str:
        return f"{channel}{base64.b64encode(data).decode()}" if is_text else bytes((channel,)) + data

    async with cluster.images(IMAGES):
        await run(cluster, namespace, "registry.test/echo", 7000)
        target = f"/api/v1/namespaces/{namespace}/pods/p/portforward?ports=7000&ports=7001"
        async with websocket(cluster.config, target, [protocol] if protocol else []) as socket:
            assert socket.status == 101, socket.error
            socket.send(message(0, b"early"))
            wanted = {message(channel, struct.pack("<H", 7000 + channel // 2)) for channel in range(4)}
            wanted.add(message(0, b"early"))
            received = [await socket.receive() for _ in range(6)]
            [error] = [each for each in received if each not in wanted]
            assert wanted < set(received)
            assert error is not None
            text = base64.b64decode(error[1:]) if is_text else bytes(error[1:])  # type: ignore[arg-type]
            assert b"failed to connect to port 7001 of the Pod" in text
            socket.send(message(0, b"late"))
            assert await socket.receive() == message(0, b"late")
        async with websocket(cluster.config, target.partition("?")[0], ["v4.channel.k8s.io"]) as socket:
            assert socket.status == 400
            assert "query parameter" in socket.error


async def test_a_closed_port_is_reported(cluster: Cluster, namespace: str, kubectl: Kubectl) -> None:
    await run(cluster, namespace, "registry.test/echo", 7000)
    process = await kubectl.start("port-forward", "pod/p", ":7001")
    assert process.stdout is not None
    assert process.stderr is not None
    said = (await process.stdout.readline()).decode()
    assert await exchange(int(said.split(":")[1].split()[0]), b"x") == b""
    assert "failed to connect to port 7001 of the Pod" in (await process.stderr.readline()).decode()
    await process.wait()


async def test_a_port_of_a_service_leads_to_the_port_of_its_pod(
    kubectl: Kubectl, cluster: Cluster, namespace: str
) -> None:
    await run(cluster, namespace, "registry.test/echo", 7000)
    service = codec.from_dict(
        Service, {"spec": {"selector": {"app": "p"}, "ports": [{"port": 80, "targetPort": 7000}]}}
    )
    service.metadata = ObjectMeta(name="s", namespace=namespace)
    await cluster.client.create(service)
    async with forwarded(kubectl, 80, "service/s") as port:
        assert await exchange(port, b"hello") == b"helloend"
