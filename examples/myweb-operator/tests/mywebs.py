"""Helpers: what a user does with MyWebs, and what a user sees."""

import hashlib
from collections.abc import Callable

from kubewright import Client, Condition, Config, Manager, NotFound, ObjectMeta
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import ConfigMap, Pod, Service
from kubewright.apis.events.v1 import Event
from kubewright.client import MergePatch, Transport
from kubewright.testing import Cluster, eventually, gone

from myweb_operator.api.v1.myweb import MyWeb, MyWebSpec

NewOperator = Callable[[Config | Transport], Manager]
"""Return a function that creates an operator, as a new process would."""

PAGE_HASH = "operator.k8s-summit.org/page-sha256"
PORT = 30080
IMAGE, OTHER_IMAGE = "nginx:1.23.1", "nginx:1.23.0"
PAGE, OTHER_PAGE = "<h1>Hello</h1>\n", "<h1>Good bye</h1>\n"


class MyWebs:
    """The MyWebs of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.client: Client = cluster.client
        self.namespace = namespace

    async def create(self, name: str = "web", *, port: int = PORT, image: str = IMAGE, page: str = PAGE) -> MyWeb:
        metadata = ObjectMeta(name=name, namespace=self.namespace)
        spec = MyWebSpec(image=image, node_port_number=port, page_content_html=page)
        return await self.client.create(MyWeb(metadata=metadata, spec=spec))

    async def change(self, name: str = "web", **spec: object) -> MyWeb:
        return await self.client.patch(MyWeb, MergePatch({"spec": spec}), name=name, namespace=self.namespace)

    async def hold_pods_back(self, phase: str | None, name: str = "web") -> None:
        """Keep new Pods in this phase. None lets them continue."""
        annotations = {"simulation.kubewright.dev/phase": phase}
        template = {"metadata": {"annotations": annotations}}
        await self.client.patch(await self.deployment(name), MergePatch({"spec": {"template": template}}))

    async def delete(self, name: str = "web") -> None:
        await self.client.delete(MyWeb, name, namespace=self.namespace)

    async def get(self, name: str = "web") -> MyWeb:
        return await self.client.get(MyWeb, name, namespace=self.namespace)

    async def config_map(self, name: str = "web") -> ConfigMap:
        return await self.client.get(ConfigMap, name, namespace=self.namespace)

    async def deployment(self, name: str = "web") -> Deployment:
        return await self.client.get(Deployment, name, namespace=self.namespace)

    async def service(self, name: str = "web") -> Service:
        return await self.client.get(Service, name, namespace=self.namespace)

    async def pods(self, name: str = "web") -> list[Pod]:
        labels = {"app.kubernetes.io/instance": name}
        found = await self.client.list(Pod, namespace=self.namespace, labels=labels)
        return [each for each in found if each.metadata.deletion_timestamp is None]

    async def events(self, name: str = "web") -> list[Event]:
        found = await self.client.list(Event, namespace=self.namespace)
        return [
            each for each in found if each.regarding and (each.regarding.kind, each.regarding.name) == ("MyWeb", name)
        ]

    async def warns(self, reason: str, web: MyWeb) -> None:
        """Assert that one Event has the message of the status."""
        recorded = [(each.type, each.reason, each.regarding and each.regarding.uid)
                for each in await self.events(web.metadata.name)
                if each.note == ready_condition(web).message]  # fmt: skip
        assert recorded == [("Warning", reason, web.metadata.uid)]

    async def is_complete(self, name: str = "web", *, port: int = PORT, image: str = IMAGE, page: str = PAGE) -> MyWeb:
        """Assert that the MyWeb reports completed for the current spec, and that its children match the spec."""
        web = await self.get(name)
        assert web.status.completed, ready_condition(web).message
        assert web.status.observed_generation == web.metadata.generation
        assert (ready_condition(web).status, ready_condition(web).reason) == ("True", "Completed")
        assert (await self.config_map(name)).data == {"index.html": page}
        assert node_ports(await self.service(name)) == [port]
        containers = (await self.deployment(name)).spec.template.spec.containers
        assert [each.image for each in containers] == [image]
        pods = await self.pods(name)
        assert len(pods) == 1
        [pod] = pods
        assert pod.spec.containers[0].image == image
        assert pod.metadata.annotations.get(PAGE_HASH) == hashlib.sha256(page.encode()).hexdigest()
        return web

    async def completes(self, name: str = "web", *, port: int = PORT, image: str = IMAGE, page: str = PAGE) -> MyWeb:
        return await eventually(self.is_complete, name, port=port, image=image, page=page)

    async def is_held_up(self, reason: str, message: str, name: str = "web") -> MyWeb:
        """Assert that the MyWeb reports not completed for the current spec, with this reason."""
        web = await self.get(name)
        condition = ready_condition(web)
        assert (condition.status, condition.reason) == ("False", reason), condition
        assert message in (condition.message or "")
        assert condition.observed_generation == web.metadata.generation
        assert not web.status.completed
        return web

    async def remove(self, name: str = "web") -> None:
        """Delete a MyWeb, and wait until its children are deleted."""
        await self.delete(name)
        for get in (self.get, self.config_map, self.deployment, self.service):
            await gone(get, name)

    async def clean_up(self) -> None:
        """Delete all MyWebs and their children, because node ports belong to the whole cluster."""
        for kind in (MyWeb, Deployment, Service):
            for each in await self.client.list(kind, namespace=self.namespace):
                try:
                    await self.client.delete(each)
                except NotFound:  # already deleted with its owner
                    continue


def ready_condition(web: MyWeb) -> Condition:
    found = [each for each in web.status.conditions if each.type == "Ready"]
    assert len(found) == 1, web.status.conditions
    return found[0]


def node_ports(service: Service) -> list[int | None]:
    return [port.node_port for port in service.spec.ports]
