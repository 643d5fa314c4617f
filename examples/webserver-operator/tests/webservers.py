"""Helpers: what a user does with WebServers, and what a user sees."""

from kubewright import Condition, Manager, NotFound, ObjectMeta
from kubewright.apis.apps.v1 import Deployment, ReplicaSet
from kubewright.apis.core.v1 import Pod, Service
from kubewright.client import MergePatch, Propagation
from kubewright.testing import Cluster, eventually

from webserver_operator.api.v1.webserver import WebServer, WebServerSpec

OLD, NEW = "nginx:1.23.1", "nginx:1.23.0"


class WebServers:
    """The WebServers of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.namespace = namespace

    async def create(self, name: str = "web", *, replicas: int = 3, image: str = OLD) -> WebServer:
        metadata = ObjectMeta(name=name, namespace=self.namespace)
        spec = WebServerSpec(replicas=replicas, image=image)
        return await self.client.create(WebServer(metadata=metadata, spec=spec))

    async def change(self, name: str = "web", **spec: object) -> None:
        await self.client.patch(WebServer, MergePatch({"spec": spec}), name=name, namespace=self.namespace)

    async def delete(self, name: str = "web", *, propagation: Propagation = "Background") -> None:
        await self.client.delete(WebServer, name, namespace=self.namespace, propagation=propagation)

    async def get(self, name: str = "web") -> WebServer:
        return await self.client.get(WebServer, name, namespace=self.namespace)

    async def deployment(self, name: str = "web") -> Deployment:
        return await self.client.get(Deployment, name, namespace=self.namespace)

    async def service(self, name: str = "web") -> Service:
        return await self.client.get(Service, f"{name}-service", namespace=self.namespace)

    async def pods(self) -> list[Pod]:
        return list(await self.client.list(Pod, namespace=self.namespace))

    async def replica_sets(self) -> list[ReplicaSet]:
        return list(await self.client.list(ReplicaSet, namespace=self.namespace))

    async def serves(self, name: str = "web", *, replicas: int = 3, image: str = OLD) -> WebServer:
        """Wait until this number of replicas serves and the status reports it, and return the WebServer."""

        async def check() -> WebServer:
            web = await self.get(name)
            ready = ready_condition(web)
            assert (ready.status, ready.reason) == ("True", "AllReplicasAvailable")
            assert ready.observed_generation == web.status.observed_generation == web.metadata.generation
            assert web.status.available_replicas == replicas
            labels = {"webserver_cr": name}
            pods = await self.client.list(Pod, namespace=self.namespace, labels=labels)
            assert [pod.spec.containers[0].image for pod in pods] == [image] * replicas
            assert all(pod.status.phase == "Running" for pod in pods)
            await self.service(name)
            return web

        return await eventually(check)

    async def clean_up(self) -> None:
        """Delete all WebServers and their children, because the node port belongs to the whole cluster."""
        await self.client.delete_all_of(WebServer, namespace=self.namespace)
        await self.client.delete_all_of(Deployment, namespace=self.namespace)
        for service in await self.client.list(Service, namespace=self.namespace):
            try:
                await self.client.delete(service)
            except NotFound:  # its owner's deletion was faster
                continue


def ready_condition(web: WebServer) -> Condition:
    found = [each for each in web.status.conditions if each.type == "Ready"]
    assert len(found) == 1, web.status.conditions
    return found[0]


def reconciles(operator: Manager) -> int:
    """Return the number of reconciles."""
    return sum(operator.metrics.controllers["webserver"].outcomes.values())
