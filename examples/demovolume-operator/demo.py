"""The demo of the DemoVolume operator, on an embedded control plane: `make demo EXAMPLE=demovolume-operator`."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from kubewright import Invalid, Manager, ObjectMeta
from kubewright.apis.core.v1 import (
    Container,
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodSpec,
    Volume,
)
from kubewright.apis.storage.v1 import StorageClass
from kubewright.client import MergePatch
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster, gone
from kubewright_controlplane import Demo, Summary, Walkthrough
from kubewright_controlplane.controllers.storage.provisioner import provisioner, register_default_class

from demovolume_operator.api.v1.demovolume import DemoVolume
from demovolume_operator.api.v1.volumeoperation import VolumeOperation, VolumeOperationSpec
from demovolume_operator.main import manager

NAMESPACE: Final = "default"
SAMPLE: Final = Path(__file__).parent / "config" / "samples" / "demo_v1_demovolume.yaml"


def summary_of_claim(claim: PersistentVolumeClaim) -> str:
    requests = claim.spec.resources.requests if claim.spec.resources else {}
    deleting = ", being deleted" if claim.metadata.deletion_timestamp else ""
    return f"{requests.get('storage')} requested, {claim.status.phase}{deleting}"


SHOWN: Final[Mapping[type, Summary]] = {
    DemoVolume: lambda it: f"{it.spec.size} GiB, {', '.join(each.reason for each in it.status.conditions) or 'new'}",
    VolumeOperation: lambda it: ": ".join((it.status.phase or "new", *(each.message for each in it.status.conditions))),
    PersistentVolumeClaim: summary_of_claim,
    Pod: lambda it: str(it.status.phase),
}


class Steps:
    """The steps, and the states that each step must reach."""

    def __init__(self, cluster: Cluster, walk: Walkthrough) -> None:
        self.client = cluster.client
        self.walk = walk
        self.volume = codec.from_dict(DemoVolume, yaml.load(SAMPLE.read_text()))
        self.volume.metadata.namespace = NAMESPACE
        self.name = self.volume.metadata.name

    async def go(self) -> None:
        await self.create()
        await self.grow()
        await self.shrink()
        await self.rebuild()
        await self.rebuild_in_use()
        await self.delete()

    async def create(self) -> None:
        async with self.walk.step(f"Create a DemoVolume of {self.volume.spec.size} GiB"):
            await self.client.create(self.volume)
            await self.walk.reach("its claim is bound and has 1Gi", partial(self.has, "1Gi"))

    async def grow(self) -> None:
        async with self.walk.step("Expand it to 2 GiB"):
            await self.resize(2)
            await self.walk.reach("its claim has 2Gi", partial(self.has, "2Gi"))

    async def shrink(self) -> None:
        async with self.walk.step("Try to shrink it to 1 GiB"):
            try:
                await self.resize(1)
            except Invalid as error:
                self.walk.say(f"   rejected: {error}")
            await self.walk.reach("its claim still has 2Gi", partial(self.has, "2Gi"))

    async def rebuild(self) -> None:
        async with self.walk.step("Rebuild it: a new claim replaces the old one"):
            old = await self.claim()
            await self.operate("rebuild-data")
            await self.walk.reach(
                "the operation has succeeded and the claim is a new one", partial(self.is_rebuilt, "rebuild-data", old)
            )

    async def rebuild_in_use(self) -> None:
        async with self.walk.step("Rebuild it while a Pod uses it"):
            old = await self.claim()
            await self.client.create(self.pod())
            await self.walk.reach("the Pod runs", self.runs)
            await self.operate("rebuild-in-use")
            await self.walk.reach("the operation waits for the Pod", self.waits_for_pod)
            await self.client.delete(Pod, "web", namespace=NAMESPACE)
            await self.walk.reach(
                "the operation has succeeded after the Pod was deleted", partial(self.is_rebuilt, "rebuild-in-use", old)
            )

    async def delete(self) -> None:
        async with self.walk.step("Delete the DemoVolume and the operations"):
            await self.client.delete(DemoVolume, self.name, namespace=NAMESPACE)
            await self.client.delete_all_of(VolumeOperation, namespace=NAMESPACE)
            await self.walk.reach("the claim is deleted too", partial(gone, self.claim))

    async def resize(self, size: int) -> None:
        change = MergePatch({"spec": {"size": size}})
        await self.client.patch(DemoVolume, change, name=self.name, namespace=NAMESPACE)

    async def operate(self, name: str) -> None:
        spec = VolumeOperationSpec(volume=self.name, type="Rebuild")
        await self.client.create(VolumeOperation(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=spec))

    def pod(self) -> Pod:
        source = PersistentVolumeClaimVolumeSource(claim_name=self.name)
        spec = PodSpec(
            containers=[Container(name="web", image="nginx")],
            volumes=[Volume(name="data", persistent_volume_claim=source)],
        )
        return Pod(metadata=ObjectMeta(name="web", namespace=NAMESPACE), spec=spec)

    async def claim(self) -> PersistentVolumeClaim:
        return await self.client.get(PersistentVolumeClaim, self.name, namespace=NAMESPACE)

    async def has(self, capacity: str) -> None:
        volume = await self.client.get(DemoVolume, self.name, namespace=NAMESPACE)
        assert [each.reason for each in volume.status.conditions] == ["Bound"], volume.status.conditions
        assert volume.status.capacity == capacity, f"it has {volume.status.capacity}"

    async def runs(self) -> None:
        pod = await self.client.get(Pod, "web", namespace=NAMESPACE)
        assert pod.status.phase == "Running", f"it is {pod.status.phase}"

    async def waits_for_pod(self) -> None:
        operation = await self.client.get(VolumeOperation, "rebuild-in-use", namespace=NAMESPACE)
        assert operation.status.phase == "Running", f"it is {operation.status.phase}"
        assert 'Pod "web"' in operation.status.conditions[0].message

    async def is_rebuilt(self, name: str, old: PersistentVolumeClaim) -> None:
        operation = await self.client.get(VolumeOperation, name, namespace=NAMESPACE)
        assert operation.status.phase == "Succeeded", f"it is {operation.status.phase}"
        assert operation.status.replaced_claim_uid == old.metadata.uid
        assert (await self.claim()).metadata.uid == operation.status.new_claim_uid


@asynccontextmanager
async def storage(cluster: Cluster) -> AsyncGenerator[None]:
    """Run a simulated storage driver if the cluster has no StorageClass."""
    if await cluster.client.list(StorageClass):
        yield
        return
    await register_default_class(cluster.client)
    async with Manager([provisioner()], config=cluster.config):
        yield


async def steps(cluster: Cluster, walk: Walkthrough) -> None:
    async with storage(cluster):
        await Steps(cluster, walk).go()


if __name__ == "__main__":
    Demo(
        manager=manager,
        module="demovolume_operator.main",
        kinds=[DemoVolume, VolumeOperation],
        shown=SHOWN,
        steps=steps,
        sample=SAMPLE,
        namespace=NAMESPACE,
    ).main()
