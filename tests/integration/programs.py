"""Python programs that run as containers, and their Pods."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any

import pytest
import pytest_asyncio

from kubewright import ObjectMeta
from kubewright.apis.core.v1 import ContainerStatus, Event, Pod
from kubewright.client._transport import HTTPTransport
from kubewright.http.message import Request
from kubewright.models import codec
from kubewright.testing import Cluster, eventually
from kubewright_controlplane.kubelet.images import Image, ImageTable

SLEEP = "import time; time.sleep(1000)"


class Programs:
    """Images of a cluster that run Python programs."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        assert cluster.config.image_table is not None
        self.cluster = cluster
        self.client = cluster.client
        self.namespace = namespace
        self.table = ImageTable(cluster.config.image_table)
        self._names: list[str] = []

    def image(self, program: str, *, sandbox: bool = False, **more: Any) -> str:
        """Add an image that runs `program`. Returns its name."""
        name = f"registry.test/program:{secrets.token_hex(4)}"
        self.table.put(name, Image((sys.executable, "-S", "-u", "-c", program), sandbox=sandbox, **more))
        self._names.append(name)
        return name

    def close(self) -> None:
        for name in self._names:
            self.table.remove(name)

    async def pod(
        self, containers: Sequence[dict[str, Any]], name: str = "p", labels: dict[str, str] | None = None, **spec: Any
    ) -> Pod:
        """Create a Pod."""
        named = [{"name": f"c{number}", **each} for number, each in enumerate(containers)]
        document = {"spec": {"containers": named, **spec}}
        pod = codec.from_dict(Pod, document)
        pod.metadata = ObjectMeta(name=name, namespace=self.namespace, labels=labels or {})
        return await self.client.create(pod)

    async def run(self, program: str, **container: Any) -> Pod:
        """Create a Pod of one program, and wait until it runs."""
        await self.pod([{"image": self.image(program), **container}])
        return await self.until(is_running)

    async def get(self, name: str = "p") -> Pod:
        return await self.client.get(Pod, name, namespace=self.namespace)

    async def until(self, holds: Callable[[Pod], object], name: str = "p") -> Pod:
        """Wait until `holds` is true of the Pod. Returns the Pod."""

        async def check() -> Pod:
            pod = await self.get(name)
            assert pod.status.container_statuses, pod.status
            assert holds(pod), pod.status
            return pod

        return await eventually(check)

    async def log(self, query: str = "", name: str = "p") -> str:
        status, text = await self.ask_log(query, name)
        assert status == 200, text
        return text

    async def ask_log(self, query: str = "", name: str = "p") -> tuple[int, str]:
        transport = HTTPTransport(self.cluster.config)
        try:
            container = "" if "container=" in query else "container=c0&"
            target = f"/api/v1/namespaces/{self.namespace}/pods/{name}/log?{container}{query}"
            answer = await transport.send(Request("GET", target))
            return answer.status, (await answer.read()).decode()
        finally:
            await transport.close()

    def follow(self, name: str = "p") -> AsyncGenerator[str]:
        """Yield the lines of the log, to its end."""
        return self.client.logs(name, namespace=self.namespace, follow=True)

    async def says(self, text: str, name: str = "p") -> str:
        """Wait until the log contains `text`. Returns the log."""

        async def check() -> str:
            said = await self.log(name=name)
            assert text in said, said
            return said

        return await eventually(check)

    async def events(self, reason: str) -> list[str]:
        """Wait for Events of that reason. Returns their messages."""

        async def check() -> list[str]:
            found = [
                each.message or ""
                for each in await self.client.list(Event, namespace=self.namespace)
                if each.reason == reason
            ]
            assert found
            return found

        return await eventually(check)


@pytest_asyncio.fixture
async def programs(cluster: Cluster, namespace: str, kubewright_target: str) -> AsyncIterator[Programs]:
    if kubewright_target != "embedded":
        pytest.skip("other control planes run real images")
    found = Programs(cluster, namespace)
    yield found
    found.close()


def status(pod: Pod, index: int = 0) -> ContainerStatus:
    return pod.status.container_statuses[index]


def is_running(pod: Pod) -> bool:
    found = pod.status.container_statuses
    return bool(found) and all(each.state is not None and each.state.running is not None for each in found)


def is_ready(pod: Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


def process_id(said: str) -> int:
    """Return the process id in the log of a program that begins with `print(os.getpid())`."""
    return int(said.split()[0])


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def ended(pid: int) -> None:
    async def check() -> None:
        assert not is_alive(pid)

    await eventually(check)
