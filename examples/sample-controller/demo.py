"""The demo of the sample controller, on an embedded control plane: `make demo EXAMPLE=sample-controller`."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from kubewright import PolicyRule
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import Pod
from kubewright.apis.rbac.v1 import ClusterRole
from kubewright.client import MergePatch
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster, gone
from kubewright_controlplane import Demo, Summary, Walkthrough

from sample_controller.api.v1alpha1.foo import Foo
from sample_controller.controller.foo import NAME

NAMESPACE: Final = "default"
CONFIG: Final = Path(__file__).parent / "config"
SAMPLE: Final = CONFIG / "samples/samplecontroller_v1alpha1_foo.yaml"

SHOWN: Final[Mapping[type, Summary]] = {
    Foo: lambda foo: f"{foo.spec.replicas} of {foo.spec.deployment_name}, {foo.status.available_replicas} available",
    Deployment: lambda it: f"{it.spec.replicas} wanted, {it.status.available_replicas or 0} available",
    Pod: lambda it: f"{it.spec.containers[0].image}, {it.status.phase}",
}


class Program:
    """The parts of a Manager that a Demo needs."""

    name = NAME

    def rbac_rules(self) -> list[PolicyRule]:
        """Return the rules of config/rbac."""
        role = codec.from_dict(ClusterRole, yaml.load((CONFIG / "rbac/role.yaml").read_text()))
        return [
            PolicyRule(api_groups=each.api_groups, resources=each.resources, verbs=each.verbs) for each in role.rules
        ]


class Steps:
    """The steps, and the states that each step must reach."""

    def __init__(self, cluster: Cluster, walk: Walkthrough) -> None:
        self.client = cluster.client
        self.walk = walk
        self.foo = codec.from_dict(Foo, yaml.load(SAMPLE.read_text()))
        self.foo.metadata.namespace = NAMESPACE

    async def go(self) -> None:
        async with self.walk.step("Create a Foo with one replica"):
            await self.client.create(self.foo)
            await self.walk.reach("its Deployment is available", self.serves("example-foo", 1))
        async with self.walk.step("Scale it to 3"):
            await self.change({"replicas": 3})
            await self.walk.reach("3 replicas are available", self.serves("example-foo", 3))
        await self.scale_by_hand()
        async with self.walk.step("Rename its Deployment"):
            await self.change({"deploymentName": "another"})
            await self.walk.reach("the new Deployment is available", self.serves("another", 3))
            await self.walk.reach("the old Deployment is deleted", self.is_deleted("example-foo"))
        async with self.walk.step("Delete the Foo"):
            await self.client.delete(Foo, "example-foo", namespace=NAMESPACE)
            await self.walk.reach("its Deployment and Pods are deleted", self.nothing_is_left)

    async def scale_by_hand(self) -> None:
        async with self.walk.step("Scale its Deployment to 7 by hand, and delete it"):
            scaled = MergePatch({"spec": {"replicas": 7}})
            lost = await self.client.patch(Deployment, scaled, name="example-foo", namespace=NAMESPACE)
            await self.walk.reach("it has 3 replicas again", self.serves("example-foo", 3))
            await self.client.delete(lost)
            await self.walk.reach("it is recreated", self.serves("example-foo", 3))

    async def change(self, spec: dict[str, object]) -> None:
        await self.client.patch(Foo, MergePatch({"spec": spec}), name="example-foo", namespace=NAMESPACE)

    def serves(self, deployment: str, replicas: int) -> Callable[[], Awaitable[None]]:
        async def check() -> None:
            foo = await self.client.get(Foo, "example-foo", namespace=NAMESPACE)
            assert foo.status.observed_generation == foo.metadata.generation
            assert foo.status.available_replicas == replicas, f"{foo.status.available_replicas} available"
            found = await self.client.get(Deployment, deployment, namespace=NAMESPACE)
            assert found.spec.replicas == found.status.available_replicas == replicas
            pods = await self.client.list(Pod, namespace=NAMESPACE, labels={"controller": "example-foo"})
            assert [pod.status.phase for pod in pods] == ["Running"] * replicas

        return check

    def is_deleted(self, deployment: str) -> Callable[[], Awaitable[None]]:
        return lambda: gone(self.client.get, Deployment, deployment, namespace=NAMESPACE)

    async def nothing_is_left(self) -> None:
        for kind in (Deployment, Pod):
            assert not await self.client.list(kind, namespace=NAMESPACE)


async def steps(cluster: Cluster, walk: Walkthrough) -> None:
    await Steps(cluster, walk).go()


if __name__ == "__main__":
    Demo(
        manager=Program(),
        module="sample_controller.main",
        flags=["--log-format=console"],
        kinds=[Foo],
        shown=SHOWN,
        steps=steps,
        sample=SAMPLE,
        namespace=NAMESPACE,
    ).main()
