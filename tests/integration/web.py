"""Services with node ports for Pods of nginx, and requests to these ports."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

from kubewright import ObjectMeta
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import Event, Pod, Service
from kubewright.models import codec
from kubewright.testing import Cluster, eventually
from kubewright_controlplane.ports import is_free

_PORTS = filter(is_free, itertools.count(31311))
"""Each test uses another port, because a port is not free at once when its Service is deleted."""


class Web:
    """Services for Pods of nginx."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.namespace = namespace
        self.port = next(_PORTS)
        self.other = next(_PORTS)

    async def deploy(
        self, replicas: int = 1, name: str = "web", volumes: Sequence[dict[str, Any]] = (), **container: Any
    ) -> None:
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [web_server(container)], "volumes": volumes}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        deployment = codec.from_dict(Deployment, {"spec": spec})
        deployment.metadata = ObjectMeta(name=name, namespace=self.namespace)
        await self.client.create(deployment)

    async def expose(self, *ports: dict[str, Any], name: str = "web", app: str = "web", **spec: Any) -> Service:
        given = [{"port": 80, "nodePort": self.port}] if not ports else list(ports)
        service = codec.from_dict(
            Service, {"spec": {"type": "NodePort", "selector": {"app": app}, "ports": given, **spec}}
        )
        service.metadata = ObjectMeta(name=name, namespace=self.namespace)
        return await self.client.create(service)

    async def pods(self) -> list[Pod]:
        return list(await self.client.list(Pod, namespace=self.namespace))

    async def is_available(self) -> None:
        deployment = await self.client.get(Deployment, "web", namespace=self.namespace)
        assert deployment.status.available_replicas == 1

    async def event(self, text: str) -> None:
        async def check() -> None:
            found = [str(each.message) for each in await self.client.list(Event, namespace=self.namespace)]
            assert any(text in each for each in found), found

        await eventually(check)


def web_server(more: dict[str, Any]) -> dict[str, Any]:
    probe = {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1}
    return {"name": "web", "image": "nginx:1.23.1", "readinessProbe": probe, **more}


async def page(port: int) -> str:
    """Return the page at a node port. Raises AssertionError if nothing serves it."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        answer = (await reader.read()).decode()
        writer.close()
    except OSError as error:
        raise AssertionError(f"nothing serves at {port}: {error}") from error
    assert answer.startswith("HTTP/1.0 200"), answer
    return answer


async def shows(text: str, port: int) -> None:
    assert text in await page(port)


async def opened(port: int) -> None:
    """Raise AssertionError if nothing listens on a port."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        raise AssertionError(f"{port} is closed") from None
    writer.close()


async def closed(port: int) -> None:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return
    writer.close()
    raise AssertionError(f"{port} is open")
