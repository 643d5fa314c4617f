"""Helpers: what a user does with Foos, and what a user sees."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from kubewright import Client, Condition, Config, ObjectMeta, PolicyRule
from kubewright.apis.apps.v1 import Deployment, DeploymentSpec
from kubewright.apis.core.v1 import Container, Pod, PodSpec, PodTemplateSpec
from kubewright.apis.events.v1 import Event
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.apis.rbac.v1 import ClusterRole
from kubewright.client import HTTPTransport, MergePatch, Transport
from kubewright.http.message import Request, Response
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster, eventually

from sample_controller.api.v1alpha1.foo import Foo, FooSpec
from sample_controller.controller.foo import NAME, FooController

PROJECT = Path(__file__).parent.parent


def role() -> list[PolicyRule]:
    """Return the rules of config/rbac/role.yaml."""
    written = codec.from_dict(ClusterRole, yaml.load((PROJECT / "config/rbac/role.yaml").read_text()))
    return [
        PolicyRule(api_groups=each.api_groups, resources=each.resources, verbs=each.verbs) for each in written.rules
    ]


@asynccontextmanager
async def at_work(server: Config | Transport, *, workers: int = 2) -> AsyncGenerator[FooController]:
    """Run a controller during the block, as a new process would."""
    transport = HTTPTransport(server) if isinstance(server, Config) else server
    async with Client(transport=transport, field_manager=NAME) as client:
        controller = FooController(client, workers=workers)
        running = asyncio.create_task(controller.run())
        try:
            yield controller
        finally:
            running.cancel()
            await asyncio.wait([running])
        if not running.cancelled():
            running.result()


class Foos:
    """The Foos of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.client = cluster.client
        self.namespace = namespace

    async def create(self, name: str = "foo", *, deployment: str = "web", replicas: int | None = 2) -> Foo:
        metadata = ObjectMeta(name=name, namespace=self.namespace)
        return await self.client.create(
            Foo(metadata=metadata, spec=FooSpec(deployment_name=deployment, replicas=replicas))
        )

    async def change(self, name: str = "foo", **spec: object) -> None:
        await self.client.patch(Foo, MergePatch({"spec": spec}), name=name, namespace=self.namespace)

    async def delete(self, name: str = "foo") -> None:
        await self.client.delete(Foo, name, namespace=self.namespace)

    async def get(self, name: str = "foo") -> Foo:
        return await self.client.get(Foo, name, namespace=self.namespace)

    async def deployment(self, name: str = "web") -> Deployment:
        return await self.client.get(Deployment, name, namespace=self.namespace)

    async def all(self) -> list[Foo]:
        return list(await self.client.list(Foo, namespace=self.namespace))

    async def deployments(self) -> list[Deployment]:
        return list(await self.client.list(Deployment, namespace=self.namespace))

    async def is_synced(self, name: str = "foo", *, replicas: int = 2) -> Foo:
        """Assert that the Foo and its Deployment match the spec, and return the Foo."""
        foo = await self.get(name)
        synced = condition_of(foo)
        assert (synced.status, synced.reason) == ("True", "Synced")
        assert foo.metadata.generation == synced.observed_generation == foo.status.observed_generation
        deployment = await self.deployment(foo.spec.deployment_name)
        assert is_controlled_by(deployment, foo)
        assert deployment.spec.replicas == replicas
        assert [each.image for each in deployment.spec.template.spec.containers] == ["nginx:latest"]
        assert foo.status.available_replicas == deployment.status.available_replicas == replicas
        assert deployment.status.observed_generation == deployment.metadata.generation
        pods = await self.client.list(Pod, namespace=self.namespace, labels={"app": "nginx", "controller": name})
        assert [each.status.phase for each in pods] == ["Running"] * replicas
        return foo

    async def synced(self, name: str = "foo", *, replicas: int = 2) -> Foo:
        """Wait until the Foo is synced, and return it."""
        return await eventually(self.is_synced, name, replicas=replicas)

    async def event(self, reason: str, name: str = "foo") -> Event:
        """Return the only Event about a Foo with this reason."""
        events = await self.client.list(Event, namespace=self.namespace)
        found = [each for each in events if each.reason == reason and each.regarding and each.regarding.name == name]
        assert len(found) == 1, found
        return found[0]

    async def create_foreign_deployment(self) -> Deployment:
        """Create a Deployment "web" that no Foo controls."""
        labels = {"app": "theirs"}
        pod = PodSpec(containers=[Container(name="c", image="busybox")])
        template = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=pod)
        spec = DeploymentSpec(replicas=1, selector=LabelSelector(match_labels=labels), template=template)
        return await self.client.create(
            Deployment(metadata=ObjectMeta(name="web", namespace=self.namespace), spec=spec)
        )


def is_controlled_by(deployment: Deployment, foo: Foo) -> bool:
    [owner] = deployment.metadata.owner_references
    described = (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller)
    return described == ("samplecontroller.k8s.io/v1alpha1", "Foo", foo.metadata.name, foo.metadata.uid, True)


def condition_of(foo: Foo) -> Condition:
    found = [each for each in foo.status.conditions if each.type == "Synced"]
    assert len(found) == 1, foo.status.conditions
    return found[0]


class BeforeCreation:
    """A transport that calls a function before it creates a Deployment of a certain name."""

    def __init__(self, server: Config | Transport, name: str, callback: Callable[[], Awaitable[None]]) -> None:
        self._inner: Transport = HTTPTransport(server) if isinstance(server, Config) else server
        self._name = f'"name":"{name}"'.encode()
        self._callback = callback

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:  # noqa: ASYNC109 - as Transport has it
        if request.method == "POST" and request.path.endswith("/deployments") and self._name in request.body:
            await self._callback()
        return await self._inner.send(request, timeout=timeout, stream=stream)

    async def close(self) -> None:
        await self._inner.close()
