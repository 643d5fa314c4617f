"""Full disks: each volume is a small file system in memory, so etcd gets the error ENOSPC from the kernel.

Mounting needs root, or `unshare --map-root-user --mount python -m pytest ...`.
"""

import asyncio
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from kubewright import ObjectMeta
from kubewright.apis.core.v1 import (
    HostPathVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
)
from kubewright.testing import Faults, eventually
from kubewright_controlplane import Environment

from clusters import IMAGES, Clusters, operator_in
from etcd_operator import api
from etcd_operator.api.v1.etcdcluster import Storage
from etcd_operator.main import manager
from observer import Observed, observed
from workload import under_load

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

CLASS = "small"
MEGABYTES = 170
"""Of each disk: etcd reserves 64 MiB for its log, and as much for the next file of it."""
DISKS = 6
"""A member whose disk stays full, or that is slow to start, gets another one."""
BALLAST = "ballast"


class Disks:
    """The disks of a control plane, one for each volume of the class."""

    def __init__(self, clusters: Clusters, folder: Path) -> None:
        self.clusters = clusters
        self.folder = folder

    async def add(self, number: int) -> None:
        path = self.folder / str(number)
        path.mkdir()
        options = ("-o", f"size={MEGABYTES}m,mode=777")
        mounting = await asyncio.create_subprocess_exec(
            "mount", "-t", "tmpfs", *options, "etcd", path, stderr=asyncio.subprocess.PIPE
        )
        _, error = await mounting.communicate()
        if mounting.returncode:
            pytest.skip(f"{error.decode().strip()}: run it under `unshare --map-root-user --mount`")
        spec = PersistentVolumeSpec(
            access_modes=["ReadWriteOnce"],
            capacity={"storage": "1Gi"},
            storage_class_name=CLASS,
            host_path=HostPathVolumeSource(path=str(path)),
        )
        await self.clusters.client.create(PersistentVolume(metadata=ObjectMeta(name=f"disk-{number}"), spec=spec))

    async def of(self, member: str) -> Path:
        claim = await self.clusters.client.get(PersistentVolumeClaim, member, namespace=self.clusters.namespace)
        return self.folder / (claim.spec.volume_name or "").removeprefix("disk-")

    async def fill(self, member: str) -> None:
        await asyncio.to_thread(write_until_full, await self.of(member) / BALLAST)

    async def empty(self, member: str) -> None:
        (await self.of(member) / BALLAST).unlink()

    def unmount(self) -> None:
        for each in self.folder.iterdir():
            subprocess.run(("umount", "--lazy", each), check=False)


def write_until_full(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            return


@pytest_asyncio.fixture
async def disks(tmp_path: Path, kubewright_target: str) -> AsyncIterator[Disks]:
    """A control plane whose volumes are small disks."""
    if kubewright_target != "embedded" or not IMAGES:
        pytest.skip("needs the embedded control plane and etcd: `make controlplane` builds it")
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Environment(images=IMAGES, host_paths=[tmp_path]))
        await cluster.install(api)
        namespace = await stack.enter_async_context(cluster.namespace())
        clusters = Clusters(cluster, namespace)
        disks = Disks(clusters, tmp_path)
        stack.callback(disks.unmount)
        for number in range(DISKS):
            await disks.add(number)
        yield disks
        await clusters.clean_up()


@asynccontextmanager
async def operating(clusters: Clusters) -> AsyncGenerator[None]:
    """Run and observe the operator during the block."""
    rules = manager.rbac_rules()
    async with (
        clusters.cluster.service_account(rules, namespace=clusters.namespace) as account,
        observed(clusters) as observer,
        operator_in(clusters.namespace, Faults(transport=Observed(account, observer))),
    ):
        yield


async def test_full_disks_lose_nothing_and_one_that_stays_full_is_replaced(disks: Disks) -> None:
    clusters = disks.clusters
    await clusters.create(size=3, storage=Storage(size="1Gi", storage_class_name=CLASS))
    async with operating(clusters):
        before = await clusters.settles(3)
        async with under_load(clusters) as load:
            for member in ("main-0", "main-1"):
                await disks.fill(member)
            await eventually(clusters.has_logged, "main-0", "no space left on device")
            await eventually(clusters.has_logged, "main-1", "no space left on device")
            await clusters.reports("Available", "False", "NoQuorum")
            for member in ("main-0", "main-1"):
                await disks.empty(member)
            after = await clusters.settles(3)
            assert {each.id for each in after.status.members} == {each.id for each in before.status.members}
            await load.goes_on(50)

            await disks.fill("main-2")
            await clusters.change(replaceAfterSeconds=20)
            full = next(each.id for each in after.status.members if each.name == "main-2")
            await clusters.settles(3, without=full)
            await load.goes_on(50)
    load.check(at_least=100)
