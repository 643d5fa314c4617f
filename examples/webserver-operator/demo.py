"""The walk-through of the WebServer operator, on an embedded control plane: `make demo`."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from kubewright.apis.apps.v1 import Deployment, ReplicaSet
from kubewright.apis.core.v1 import Pod, PodTemplateSpec, Service
from kubewright.client.patch import MergePatch
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster, Demo, Summary, Walkthrough, gone

from webserver_operator.api.v1.webserver import WebServer
from webserver_operator.main import manager

NAMESPACE: Final = "default"
SAMPLE: Final = Path(__file__).parent / "config" / "samples" / "my_v1_webserver.yaml"


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
    """The steps, and the states that each has to reach."""

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
        await self.delete()

    async def create(self) -> None:
        spec = self.web.spec
        async with self.walk.step(f"Create a WebServer with {spec.replicas} replicas of {spec.image}"):
            await self.client.create(self.web)
            await self.walk.reach("3 of 3 replicas serve on node port 30010", self.serves(3, "nginx:1.23.1"))

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

            await self.walk.reach("the Service is back", is_back)

    async def delete(self) -> None:
        async with self.walk.step("Delete the WebServer"):
            await self.client.delete(WebServer, self.name, namespace=NAMESPACE)

            async def all_gone() -> None:
                for kind in (WebServer, Deployment, ReplicaSet, Pod):
                    left = await self.client.list(kind, namespace=NAMESPACE)
                    assert not left, f"{len(left)} {kind.__name__} left"
                await gone(self.client.get, Service, f"{self.name}-service", namespace=NAMESPACE)

            await self.walk.reach("all that belonged to it is gone", all_gone)

    async def change(self, spec: dict[str, object]) -> None:
        await self.client.patch(WebServer, MergePatch({"spec": spec}), name=self.name, namespace=NAMESPACE)

    def serves(self, replicas: int, image: str) -> Callable[[], Awaitable[None]]:
        async def check() -> None:
            web = await self.client.get(WebServer, self.name, namespace=NAMESPACE)
            assert web.status.available_replicas == replicas, f"{web.status.available_replicas} available"
            pods = await self.client.list(Pod, namespace=NAMESPACE, labels={"webserver_cr": self.name})
            images = [image_of(pod) for pod in pods if pod.status.phase == "Running"]
            assert images == [image] * replicas, f"Pods run {images}"
            service = await self.client.get(Service, f"{self.name}-service", namespace=NAMESPACE)
            assert service.spec.ports[0].node_port == 30010

        return check


async def steps(cluster: Cluster, walk: Walkthrough) -> None:
    await Steps(cluster, walk).go()


if __name__ == "__main__":
    Demo(
        manager=manager,
        module="webserver_operator.main",
        kinds=[WebServer],
        shown=SHOWN,
        steps=steps,
        sample=SAMPLE,
        namespace=NAMESPACE,
    ).main()
