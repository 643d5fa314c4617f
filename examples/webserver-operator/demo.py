"""The demo of the WebServer operator, on an embedded control plane: `make demo`."""

import asyncio
import sys
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Final

from kubewright import ObjectMeta
from kubewright.apis.apps.v1 import Deployment, ReplicaSet
from kubewright.apis.core.v1 import Pod, PodTemplateSpec, Service
from kubewright.client import MergePatch
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster, gone
from kubewright_controlplane import STAND_INS, Demo, Summary, Walkthrough

from webserver_operator.api.v1.webserver import WebServer, WebServerSpec
from webserver_operator.main import manager

NAMESPACE: Final = "default"
SAMPLE: Final = Path(__file__).parent / "config" / "samples" / "my_v1_webserver.yaml"


PAGE: Final = "http://127.0.0.1:30010/"
SERVED: Final = sys.platform == "linux"
"""Elsewhere no node port leads to Pods of the embedded control plane; see docs/controlplane.md."""


def page() -> str:
    with urllib.request.urlopen(PAGE, timeout=5) as answer:
        return str(answer.read(), "utf-8")


def image_of(pod: Pod | PodTemplateSpec | None) -> str:
    return str(pod.spec.containers[0].image) if pod else ""


SHOWN: Final[Mapping[type, Summary]] = {
    WebServer: lambda web: f"{web.spec.replicas} of {web.spec.image}, {web.status.available_replicas} available",
    Deployment: lambda it: f"{it.spec.replicas} wanted, {it.status.available_replicas or 0} available",
    ReplicaSet: lambda it: f"{image_of(it.spec.template)}, {it.spec.replicas} wanted",
    Pod: lambda it: f"{image_of(it)}, {it.status.phase}",
    Service: lambda it: f"{it.spec.type}, node port {it.spec.ports[0].node_port}",
}


class Steps:
    """The steps, and the states that each step must reach."""

    def __init__(self, cluster: Cluster, walk: Walkthrough) -> None:
        self.client = cluster.client
        self.walk = walk
        self.web = codec.from_dict(WebServer, yaml.load(SAMPLE.read_text()))
        self.web.metadata.namespace = NAMESPACE
        self.name = self.web.metadata.name

    async def go(self) -> None:
        await self.create()
        await self.scale()
        await self.upgrade()
        await self.lose_service()
        await self.compete()
        await self.delete()

    async def create(self) -> None:
        spec = self.web.spec
        async with self.walk.step(f"Create a WebServer with {spec.replicas} replicas of {spec.image}"):
            await self.client.create(self.web)
            await self.walk.reach(f"3 of 3 replicas serve, at {PAGE}", self.serves(3, "nginx:1.23.1"))

    async def scale(self) -> None:
        async with self.walk.step("Scale it to 4"):
            await self.change({"replicas": 4})
            await self.walk.reach("4 of 4 replicas serve", self.serves(4, "nginx:1.23.1"))

    async def upgrade(self) -> None:
        async with self.walk.step("Change the image to nginx:1.23.0: a rolling upgrade"):
            await self.change({"image": "nginx:1.23.0"})
            await self.walk.reach("4 of 4 replicas serve the new image, none the old", self.serves(4, "nginx:1.23.0"))

    async def lose_service(self) -> None:
        async with self.walk.step("Delete its Service by hand"):
            lost = await self.client.get(Service, f"{self.name}-service", namespace=NAMESPACE)
            await self.client.delete(lost)

            async def is_back() -> None:
                service = await self.client.get(Service, f"{self.name}-service", namespace=NAMESPACE)
                assert service.metadata.uid != lost.metadata.uid, "the Service is still the old one"

            await self.walk.reach("the Service is recreated", is_back)

    async def compete(self) -> None:
        second = WebServer(metadata=ObjectMeta(name="second", namespace=NAMESPACE), spec=WebServerSpec(image="nginx"))
        async with self.walk.step("Create a second WebServer, which wants the same node port"):
            await self.client.create(second)

            async def is_told() -> None:
                web = await self.client.get(WebServer, "second", namespace=NAMESPACE)
                told = [each.message for each in web.status.conditions]
                assert told, "it says nothing yet"
                assert f'taken by Service "{NAMESPACE}/{self.name}-service"' in told[0], told[0]

            await self.walk.reach("its status names the Service that has the node port", is_told)

    async def delete(self) -> None:
        async with self.walk.step("Delete the first WebServer"):
            await self.client.delete(self.web)
            await self.walk.reach("the second one has the node port", self.serves(1, "nginx", name="second"))
        async with self.walk.step("Delete the second WebServer"):
            await self.client.delete(WebServer, "second", namespace=NAMESPACE)

            async def all_gone() -> None:
                for kind in (WebServer, Deployment, ReplicaSet, Pod):
                    left = await self.client.list(kind, namespace=NAMESPACE)
                    assert not left, f"{len(left)} {kind.__name__} left"
                await gone(self.client.get, Service, "second-service", namespace=NAMESPACE)

            await self.walk.reach("all children are deleted", all_gone)

    async def change(self, spec: dict[str, object]) -> None:
        await self.client.patch(WebServer, MergePatch({"spec": spec}), name=self.name, namespace=NAMESPACE)

    def serves(self, replicas: int, image: str, *, name: str = "") -> Callable[[], Awaitable[None]]:
        name = name or self.name

        async def check() -> None:
            web = await self.client.get(WebServer, name, namespace=NAMESPACE)
            assert web.status.available_replicas == replicas, f"{web.status.available_replicas} available"
            pods = await self.client.list(Pod, namespace=NAMESPACE, labels={"webserver_cr": name})
            images = [image_of(pod) for pod in pods if pod.status.phase == "Running"]
            assert images == [image] * replicas, f"Pods run {images}"
            service = await self.client.get(Service, f"{name}-service", namespace=NAMESPACE)
            assert service.spec.ports[0].node_port == 30010
            if SERVED:
                served = await self.page()
                assert f"<h1>{image}</h1>" in served, f"{PAGE} serves {served!r}"

        return check

    async def page(self) -> str:
        """Return what the node port serves."""
        try:
            return await asyncio.to_thread(page)
        except (OSError, HTTPException) as error:
            raise AssertionError(f"{PAGE}: {error}") from error


async def steps(cluster: Cluster, walk: Walkthrough) -> None:
    await Steps(cluster, walk).go()


if __name__ == "__main__":
    Demo(
        manager=manager,
        module="webserver_operator.main",
        kinds=[WebServer],
        images=STAND_INS if SERVED else None,
        shown=SHOWN,
        steps=steps,
        sample=SAMPLE,
        namespace=NAMESPACE,
    ).main()
