"""The demo of the PodSet operator, on an embedded control plane: `make demo EXAMPLE=podset-operator`."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from kubewright.apis.autoscaling.v1 import Scale
from kubewright.apis.core.v1 import Pod
from kubewright.client import MergePatch
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster
from kubewright_controlplane import Demo, Summary, Walkthrough

from podset_operator.api.v1.podset import PodSet
from podset_operator.main import manager

NAMESPACE: Final = "default"
SAMPLE: Final = Path(__file__).parent / "config" / "samples" / "batch_v1_podset.yaml"

SHOWN: Final[Mapping[type, Summary]] = {
    PodSet: lambda it: f"{it.spec.replicas} wanted, {it.status.replicas} there, {it.status.ready_replicas} ready",
    Pod: lambda it: "being deleted" if it.metadata.deletion_timestamp else str(it.status.phase),
}


class Steps:
    """The steps, and the states that each step must reach."""

    def __init__(self, cluster: Cluster, walk: Walkthrough) -> None:
        self.client = cluster.client
        self.walk = walk
        self.podset = codec.from_dict(PodSet, yaml.load(SAMPLE.read_text()))
        self.podset.metadata.namespace = NAMESPACE
        self.name = self.podset.metadata.name

    async def go(self) -> None:
        await self.create()
        await self.scale(5)
        await self.scale(2)
        await self.lose_pod()
        await self.delete()

    async def create(self) -> None:
        replicas = self.podset.spec.replicas
        async with self.walk.step(f"Create a PodSet of {replicas}"):
            await self.client.create(self.podset)
            await self.walk.reach(f"{replicas} Pods are ready", self.has(replicas))

    async def scale(self, replicas: int) -> None:
        async with self.walk.step(f"Scale it to {replicas}, as kubectl scale does"):
            scale = self.client.subresource(PodSet, self.name, "scale", namespace=NAMESPACE)
            await scale.patch(Scale, MergePatch({"spec": {"replicas": replicas}}))
            await self.walk.reach(f"{replicas} Pods are ready, and there are no others", self.has(replicas))

    async def lose_pod(self) -> None:
        async with self.walk.step("Delete one of its Pods by hand"):
            lost = (await self.client.list(Pod, namespace=NAMESPACE)).items[0]
            await self.client.delete(lost)

            async def is_replaced() -> None:
                await self.has(2)()
                podset = await self.client.get(PodSet, self.name, namespace=NAMESPACE)
                assert lost.metadata.name not in podset.status.pod_names, "the lost Pod is still among them"

            await self.walk.reach("it is replaced", is_replaced)

    async def delete(self) -> None:
        async with self.walk.step("Delete the PodSet"):
            await self.client.delete(PodSet, self.name, namespace=NAMESPACE)

            async def all_gone() -> None:
                for kind in (PodSet, Pod):
                    left = await self.client.list(kind, namespace=NAMESPACE)
                    assert not left, f"{len(left)} {kind.__name__} left"

            await self.walk.reach("all Pods are deleted", all_gone)

    def has(self, replicas: int) -> Callable[[], Awaitable[None]]:
        async def check() -> None:
            podset = await self.client.get(PodSet, self.name, namespace=NAMESPACE)
            pods = [each for each in await self.client.list(Pod, namespace=NAMESPACE)]
            names = sorted(each.metadata.name for each in pods if each.metadata.deletion_timestamp is None)
            assert podset.status.pod_names == names, f"it says {podset.status.pod_names}, there are {names}"
            assert len(names) == podset.status.ready_replicas == replicas, f"{podset.status.ready_replicas} ready"

        return check


async def steps(cluster: Cluster, walk: Walkthrough) -> None:
    await Steps(cluster, walk).go()


if __name__ == "__main__":
    Demo(
        manager=manager,
        module="podset_operator.main",
        kinds=[PodSet],
        shown=SHOWN,
        steps=steps,
        sample=SAMPLE,
        namespace=NAMESPACE,
    ).main()
