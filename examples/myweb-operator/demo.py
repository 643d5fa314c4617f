"""The demo of the MyWeb operator, on an embedded control plane whose Pods serve: `make demo`."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from kubewright import ObjectMeta
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import ConfigMap, Pod, Service
from kubewright.client import MergePatch
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster, gone
from kubewright_controlplane import STAND_INS, Demo, Summary, Walkthrough

from myweb_operator.api.v1.myweb import MyWeb
from myweb_operator.main import manager

NAMESPACE: Final = "default"
SAMPLE: Final = Path(__file__).parent / "config/samples/operator_v1_myweb.yaml"
PORT, OTHER_PORT = 30080, 30081
SERVED: Final = sys.platform == "linux"
"""Only on such a control plane do node ports reach Pods; see docs/controlplane.md."""

SHOWN: Final[Mapping[type, Summary]] = {
    MyWeb: lambda it: f"port {it.spec.node_port_number}, {'completed' if it.status.completed else 'not completed'}",
    ConfigMap: lambda it: f"{len(it.data.get('index.html', ''))} characters",
    Deployment: lambda it: f"Pods: {it.status.updated_replicas or 0} new, {it.status.available_replicas or 0} serve",
    Pod: lambda it: str(it.status.phase),
    Service: lambda it: f"{it.spec.type}, node port {it.spec.ports[0].node_port}",
}


class Steps:
    """The steps, and the states that each step must reach."""

    def __init__(self, cluster: Cluster, walk: Walkthrough) -> None:
        self.client = cluster.client
        self.walk = walk
        self.web = codec.from_dict(MyWeb, yaml.load(SAMPLE.read_text()))
        self.web.metadata.namespace = NAMESPACE
        self.name = self.web.metadata.name

    async def go(self) -> None:
        await self.create()
        await self.change_the_page()
        await self.change_the_port()
        await self.want_a_port_that_is_taken()
        await self.delete()

    async def create(self) -> None:
        async with self.walk.step(f"Create a MyWeb on node port {PORT}"):
            await self.client.create(self.web)
            await self.walk.reach("it is completed", self.completed(self.name))
            await self.see("Hello from a MyWeb", PORT)

    async def change_the_page(self) -> None:
        async with self.walk.step("Change the page"):
            await self.change({"pageContentHtml": "<h1>Good bye</h1>\n"})
            await self.walk.reach("it is completed", self.completed(self.name))
            await self.see("Good bye", PORT)

    async def change_the_port(self) -> None:
        async with self.walk.step(f"Change the node port to {OTHER_PORT}"):
            await self.change({"nodePortNumber": OTHER_PORT})
            await self.walk.reach("it is completed", self.completed(self.name))
            await self.see("Good bye", OTHER_PORT)
            await self.walk.reach(f"port {PORT} no longer answers", is_closed)

    async def want_a_port_that_is_taken(self) -> None:
        async with self.walk.step(f"Create a second MyWeb on node port {OTHER_PORT}"):
            metadata = ObjectMeta(name="other", namespace=NAMESPACE)
            await self.client.create(MyWeb(metadata=metadata, spec=(await self.get(self.name)).spec))
            taken = f'node port {OTHER_PORT} is taken by Service "{NAMESPACE}/{self.name}"'

            async def is_reported() -> None:
                conditions = (await self.get("other")).status.conditions
                assert any(taken in (each.message or "") for each in conditions), conditions

            await self.walk.reach(f"its status reports: {taken}", is_reported)

    async def delete(self) -> None:
        async with self.walk.step("Delete the first MyWeb"):
            await self.client.delete(MyWeb, self.name, namespace=NAMESPACE)
            for kind in (ConfigMap, Deployment, Service):
                await gone(self.client.get, kind, self.name, namespace=NAMESPACE)
            await self.walk.reach("the second one has the port", self.completed("other"))
            await self.see("Good bye", OTHER_PORT)
        async with self.walk.step("Delete the second MyWeb"):
            await self.client.delete(MyWeb, "other", namespace=NAMESPACE)

            async def all_deleted() -> None:
                for kind in (Deployment, Pod):
                    left = await self.client.list(kind, namespace=NAMESPACE)
                    assert not left, f"{len(left)} {kind.__name__} left"

            await self.walk.reach("all children are deleted", all_deleted)

    async def see(self, text: str, port: int) -> None:
        if SERVED:
            await self.walk.reach(f"http://127.0.0.1:{port} shows {text!r}", shows(text, port))

    async def get(self, name: str) -> MyWeb:
        return await self.client.get(MyWeb, name, namespace=NAMESPACE)

    async def change(self, spec: dict[str, object]) -> None:
        await self.client.patch(MyWeb, MergePatch({"spec": spec}), name=self.name, namespace=NAMESPACE)

    def completed(self, name: str) -> Callable[[], Awaitable[None]]:
        async def check() -> None:
            web = await self.get(name)
            assert web.status.completed, web.status.conditions
            assert web.status.observed_generation == web.metadata.generation

        return check


def shows(text: str, port: int) -> Callable[[], Awaitable[None]]:
    async def check() -> None:
        page = await asyncio.to_thread(fetch, port)
        assert text in page, page

    return check


async def is_closed() -> None:
    page = await asyncio.to_thread(fetch, PORT)
    assert page.startswith("nothing:"), page


def fetch(port: int) -> str:
    """Return the page at a node port, or the error."""
    try:
        with urlopen(f"http://127.0.0.1:{port}", timeout=5) as answer:
            return str(answer.read().decode())
    except (OSError, HTTPException) as error:
        return f"nothing: {error}"


async def steps(cluster: Cluster, walk: Walkthrough) -> None:
    await Steps(cluster, walk).go()


if __name__ == "__main__":
    Demo(
        manager=manager,
        module="myweb_operator.main",
        kinds=[MyWeb],
        shown=SHOWN,
        steps=steps,
        sample=SAMPLE,
        namespace=NAMESPACE,
        images=STAND_INS if SERVED else None,
    ).main()
