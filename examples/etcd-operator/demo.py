"""The demo of the etcd operator, on an embedded control plane with real etcds: `make demo EXAMPLE=etcd-operator`."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from kubewright import ObjectMeta
from kubewright.apis.core.v1 import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    Pod,
    Service,
    VolumeResourceRequirements,
)
from kubewright.client import MergePatch
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster
from kubewright_controlplane import Demo, Summary, Walkthrough

from etcd_operator import objects
from etcd_operator.api.v1.etcdbackup import EtcdBackup, EtcdBackupSpec
from etcd_operator.api.v1.etcdbackupschedule import EtcdBackupSchedule
from etcd_operator.api.v1.etcdcluster import EtcdCluster, EtcdClusterStatus
from etcd_operator.api.v1.etcdrestore import EtcdRestore, EtcdRestoreSpec
from etcd_operator.etcd import Etcd, Refused, Unreachable
from etcd_operator.local import NEW, images
from etcd_operator.main import manager

NAMESPACE: Final = "default"
SAMPLE: Final = Path(__file__).parent / "config" / "samples" / "etcd_v1_etcdcluster.yaml"


def summary(cluster: EtcdCluster) -> str:
    doing = next((f"{it.reason}: {it.message}" for it in cluster.status.conditions if it.type == "Progressing"), "new")
    return f"{cluster.status.ready} of {cluster.spec.size} ready, {doing}"


SHOWN: Final[Mapping[type, Summary]] = {
    EtcdCluster: summary,
    EtcdBackup: lambda it: f"{it.status.phase or 'new'} {it.status.message}",
    EtcdRestore: lambda it: f"{it.status.phase or 'new'} {it.status.message}",
    Pod: lambda it: f"{it.status.phase} {it.spec.containers[0].image}",
}


class Steps:
    """The steps, and the states that each step must reach."""

    def __init__(self, cluster: Cluster, walk: Walkthrough) -> None:
        self.client = cluster.client
        self.walk = walk
        self.etcd = codec.from_dict(EtcdCluster, yaml.load(SAMPLE.read_text()))
        self.etcd.metadata.namespace = NAMESPACE
        self.name = self.etcd.metadata.name

    async def go(self) -> None:
        async with self.walk.step("Create a cluster of three members"):
            await self.client.create(self.etcd)
            await self.walk.reach("three members are healthy", self.settled(3))
            await self.walk.reach("color is red", self.wrote("color", "red"))
        async with self.walk.step("Lose the volume of a member"):
            await self.client.delete(PersistentVolumeClaim, f"{self.name}-1", namespace=NAMESPACE)
            await self.client.delete(Pod, f"{self.name}-1", namespace=NAMESPACE, grace_period=0)
            await self.walk.reach("another member has taken its place", self.replaced(f"{self.name}-1"))
        async with self.walk.step(f"Upgrade to etcd {NEW}"):
            await self.change(version=NEW)
            await self.walk.reach(f"all members have version {NEW}", self.settled(3, NEW))
            await self.walk.reach("color is still red", self.has("color", "red"))
        async with self.walk.step("Take a backup, and change the data"):
            await self.client.create(backup_claim())
            spec = EtcdBackupSpec(cluster=self.name, claim="backups")
            await self.client.create(EtcdBackup(metadata=named("first"), spec=spec))
            await self.walk.reach("the backup has succeeded", partial(self.succeeded, EtcdBackup, "first"))
            await self.walk.reach("color is blue", self.wrote("color", "blue"))
        async with self.walk.step("Restore the backup"):
            restore = EtcdRestoreSpec(cluster=self.name, backup="first")
            await self.client.create(EtcdRestore(metadata=named("back"), spec=restore))
            await self.walk.reach("the restore has succeeded", partial(self.succeeded, EtcdRestore, "back"))
            await self.walk.reach("three members are healthy", self.settled(3, NEW))
            await self.walk.reach("color is red again", self.has("color", "red"))
        async with self.walk.step("Delete the cluster"):
            await self.client.delete(EtcdBackup, "first", namespace=NAMESPACE)
            await self.client.delete(EtcdCluster, self.name, namespace=NAMESPACE)
            await self.walk.reach("its Pods are deleted", self.no_pods)

    async def change(self, **spec: object) -> None:
        await self.client.patch(EtcdCluster, MergePatch({"spec": spec}), name=self.name, namespace=NAMESPACE)

    async def status(self) -> EtcdClusterStatus:
        return (await self.client.get(EtcdCluster, self.name, namespace=NAMESPACE)).status

    def settled(self, size: int, version: str = "") -> Callable[[], Awaitable[None]]:
        async def check() -> None:
            status = await self.status()
            doing = [it.reason for it in status.conditions if it.type == "Progressing"]
            assert (doing, status.ready) == (["Stable"], size), doing
            assert not version or status.version == version, status.version

        return check

    def replaced(self, member: str) -> Callable[[], Awaitable[None]]:
        before: list[str] = []

        async def check() -> None:
            ids = {each.name: each.id for each in (await self.status()).members}
            before.append(ids.get(member, ""))
            assert ids.get(member) != before[0], "the lost member is still there"
            await self.settled(3)()

        return check

    def wrote(self, key: str, value: str) -> Callable[[], Awaitable[None]]:
        async def check() -> None:
            async with await self.connect() as etcd:
                try:
                    await etcd.put(key, value)
                except (Unreachable, Refused) as error:
                    raise AssertionError(str(error)) from error

        return check

    def has(self, key: str, value: str) -> Callable[[], Awaitable[None]]:
        async def check() -> None:
            async with await self.connect() as etcd:
                try:
                    found = [each.value.decode() for each in (await etcd.get(key)).kvs]
                except (Unreachable, Refused) as error:
                    raise AssertionError(str(error)) from error
            assert found == [value], found

        return check

    async def succeeded(self, kind: type[EtcdBackup] | type[EtcdRestore], name: str) -> None:
        found = await self.client.get(kind, name, namespace=NAMESPACE)
        assert found.status.phase == "Succeeded", found.status.message

    async def no_pods(self) -> None:
        assert not await self.client.list(Pod, namespace=NAMESPACE, labels={objects.CLUSTER: self.name})

    async def connect(self) -> Etcd:
        service = await self.client.get(Service, self.name, namespace=NAMESPACE)
        return Etcd(objects.url(self.etcd, service.spec.cluster_ip or "", objects.CLIENT_PORT))


def named(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=NAMESPACE)


def backup_claim() -> PersistentVolumeClaim:
    requests = VolumeResourceRequirements(requests={"storage": "1Gi"})
    spec = PersistentVolumeClaimSpec(access_modes=["ReadWriteMany"], resources=requests)
    return PersistentVolumeClaim(metadata=named("backups"), spec=spec)


async def steps(cluster: Cluster, walk: Walkthrough) -> None:
    await Steps(cluster, walk).go()


if __name__ == "__main__":
    if not images():
        sys.exit("The demo needs etcd: `make controlplane` builds it")
    Demo(
        manager=manager,
        module="etcd_operator.main",
        kinds=[EtcdCluster, EtcdBackup, EtcdBackupSchedule, EtcdRestore],
        shown=SHOWN,
        steps=steps,
        sample=SAMPLE,
        namespace=NAMESPACE,
        images=images(),
    ).main()
