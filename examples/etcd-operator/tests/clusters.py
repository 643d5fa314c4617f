"""Helpers: clusters of the test's namespace, their members, and the processes of their Pods."""

import asyncio
import shutil
import signal
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

from kubewright import Config, Manager, NotFound, ObjectMeta
from kubewright.apis.core.v1 import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    Pod,
    Secret,
    Service,
    VolumeResourceRequirements,
)
from kubewright.client import MergePatch
from kubewright.machinery.errors import BadRequest
from kubewright.testing import Cluster, Faults, eventually

from etcd_operator import objects
from etcd_operator.api.v1.etcdbackup import EtcdBackup, EtcdBackupSpec
from etcd_operator.api.v1.etcdcluster import EtcdCluster, EtcdClusterSpec, EtcdClusterStatus
from etcd_operator.api.v1.etcdrestore import EtcdRestore, EtcdRestoreSpec
from etcd_operator.etcd import Credentials, Etcd, Refused, Unreachable
from etcd_operator.local import OLD, images
from etcd_operator.main import manager
from etcd_operator.view import credentials_in
from processes import Process, processes_of

NewOperator: TypeAlias = Callable[[Config | Faults], Manager]

IMAGES = images()
CUT_OFF = "simulation.kubewright.dev/cut-off-from"
"""The annotation of a Service that forwards nothing from the addresses that it names."""


def operator_in(namespace: str, access: Config | Faults) -> Manager:
    """Return an operator of one namespace, as a new process would have it."""
    operator = manager.replace(namespaces=namespace)
    return operator.replace(config=access) if isinstance(access, Config) else operator.replace(transport=access)


class Clusters:
    """The clusters of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.namespace = namespace

    async def clean_up(self) -> None:
        """Delete all clusters and wait until their processes are gone."""
        await self.client.delete_all_of(EtcdCluster, namespace=self.namespace)
        await self.client.delete_all_of(Pod, namespace=self.namespace, grace_period=0)

    # ---- clusters

    async def create(self, name: str = "main", **spec: Any) -> EtcdCluster:
        spec.setdefault("version", OLD)
        metadata = ObjectMeta(name=name, namespace=self.namespace)
        return await self.client.create(EtcdCluster(metadata=metadata, spec=EtcdClusterSpec(**spec)))

    async def get(self, name: str = "main") -> EtcdCluster:
        return await self.client.get(EtcdCluster, name, namespace=self.namespace)

    async def change(self, name: str = "main", **spec: Any) -> EtcdCluster:
        return await self.client.patch(EtcdCluster, MergePatch({"spec": spec}), name=name, namespace=self.namespace)

    async def settles(
        self, size: int, name: str = "main", *, version: str | None = None, without: str = ""
    ) -> EtcdCluster:
        """Wait until the cluster has `size` healthy voting members, all but one, and nothing is left to do."""

        async def check() -> EtcdCluster:
            cluster = await self.get(name)
            status = cluster.status
            assert status.observed_generation == cluster.metadata.generation, status
            assert (condition(cluster, "Progressing").reason, status.ready, len(status.members)) == (
                "Stable",
                size,
                size,
            ), describe(status)
            assert version is None or {each.version for each in status.members} == {version}, describe(status)
            assert without not in {each.id for each in status.members}, f"{without} is still a member"
            return cluster

        return await eventually(check)

    async def reports(self, type: str, status: str, reason: str, name: str = "main") -> EtcdCluster:
        async def check() -> EtcdCluster:
            cluster = await self.get(name)
            found = condition(cluster, type)
            assert (found.status, found.reason) == (status, reason), describe(cluster.status)
            return cluster

        return await eventually(check)

    async def another_leads(self, member: str, name: str = "main") -> None:
        cluster = await self.get(name)
        assert cluster.status.leader not in ("", member), describe(cluster.status)

    async def is_removed(self, member_id: str, name: str = "main") -> None:
        cluster = await self.get(name)
        assert member_id not in {each.id for each in cluster.status.members}, describe(cluster.status)

    async def begins_again(self, name: str = "main") -> None:
        status = (await self.get(name)).status
        assert status.epoch.number == 1, describe(status)

    async def some_member_has(self, version: str, name: str = "main") -> None:
        async def check() -> None:
            status = (await self.get(name)).status
            assert version in {each.version for each in status.members}, describe(status)

        await eventually(check)

    # ---- backups and restores

    async def claim(self, name: str = "backups") -> None:
        """Create a volume for backups."""
        spec = PersistentVolumeClaimSpec(
            access_modes=["ReadWriteMany"], resources=VolumeResourceRequirements(requests={"storage": "1Gi"})
        )
        metadata = ObjectMeta(name=name, namespace=self.namespace)
        await self.client.create(PersistentVolumeClaim(metadata=metadata, spec=spec))

    async def back_up(self, name: str = "first", *, cluster: str = "main", claim: str = "backups") -> EtcdBackup:
        """Take a backup, and return it when it has ended."""
        metadata = ObjectMeta(name=name, namespace=self.namespace)
        await self.client.create(EtcdBackup(metadata=metadata, spec=EtcdBackupSpec(cluster=cluster, claim=claim)))
        return await self.client.wait_for(
            EtcdBackup, name, lambda it: it.status.phase in ("Succeeded", "Failed"), namespace=self.namespace
        )

    async def restore(self, name: str = "back", *, cluster: str = "main", backup: str = "first") -> EtcdRestore:
        """Restore a backup, and return the restore when it has ended."""
        metadata = ObjectMeta(name=name, namespace=self.namespace)
        await self.client.create(EtcdRestore(metadata=metadata, spec=EtcdRestoreSpec(cluster=cluster, backup=backup)))
        return await self.client.wait_for(
            EtcdRestore, name, lambda it: it.status.phase in ("Succeeded", "Failed"), namespace=self.namespace
        )

    async def oldest_backup(self) -> str:
        found = await self.client.list(EtcdBackup, namespace=self.namespace)
        assert found.items, "there is no backup yet"
        return min(each.metadata.name for each in found)

    # ---- their objects

    async def pods(self, name: str = "main") -> dict[str, Pod]:
        labels = {objects.CLUSTER: name, objects.TASK: "member"}
        return {
            each.metadata.name: each for each in await self.client.list(Pod, namespace=self.namespace, labels=labels)
        }

    async def object_names(self, kind: type[Pod | Service | PersistentVolumeClaim], name: str = "main") -> set[str]:
        labels = [objects.CLUSTER, objects.MEMBER]
        found = await self.client.list(kind, namespace=self.namespace, labels={objects.CLUSTER: name})
        return {each.metadata.name for each in found if all(label in each.metadata.labels for label in labels)}

    async def lose_volume(self, member: str) -> str:
        """Delete a member's claim and its Pod, as when its node and disk are gone. Return the ID that it had."""
        lost = next(each.id for each in (await self.get()).status.members if each.name == member)
        await self.client.delete(PersistentVolumeClaim, member, namespace=self.namespace)
        await self.client.delete(Pod, member, namespace=self.namespace, grace_period=0)
        return lost

    async def has_logged(self, member: str, text: str) -> None:
        """Assert that a text is in the log of a member's container, or of its previous run."""
        for previous in (False, True):
            try:
                lines = [each async for each in self.client.logs(member, namespace=self.namespace, previous=previous)]
            except BadRequest:  # it has not run before
                continue
            if text in "".join(lines):
                return
        raise AssertionError(f"{member} has not logged {text!r}")

    # ---- processes

    async def process(self, member: str, name: str = "main") -> Process:
        """Return the process of a member's etcd on this machine."""
        cluster = await self.get(name)
        return await eventually(lambda: etcd_process(member, cluster.metadata.uid))

    async def kill(self, member: str, name: str = "main") -> None:
        (await self.process(member, name)).signal(signal.SIGKILL)

    async def empty_data_folder(self, member: str, name: str = "main") -> None:
        """Remove all data of a member while it runs."""
        process = await self.process(member, name)
        await asyncio.to_thread(shutil.rmtree, process.root / objects.DATA_FOLDER)

    @asynccontextmanager
    async def paused(self, member: str, name: str = "main") -> AsyncGenerator[None]:
        """Stop the process of a member during the block. It does not notice that time passes."""
        process = await self.process(member, name)
        process.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.signal(signal.SIGCONT)

    # ---- network

    @asynccontextmanager
    async def cut_off(self, member: str, name: str = "main") -> AsyncGenerator[None]:
        """Let no data pass between a member and the other members during the block. Clients reach all of them."""
        pods = await self.pods(name)
        address = pods[member].status.pod_ip
        others = [each.status.pod_ip for other, each in pods.items() if other != member]
        async with self._closed({other: [address] for other in pods} | {member: others}):
            yield

    @asynccontextmanager
    async def hidden(self, member: str) -> AsyncGenerator[None]:
        """Let no data pass between a member and programs outside the cluster, such as the operator, during the block."""
        async with self._closed({member: ["127.0.0.1"]}):
            yield

    @asynccontextmanager
    async def _closed(self, sources: Mapping[str, Sequence[str | None]]) -> AsyncGenerator[None]:
        for service, hosts in sources.items():
            await self._close(service, hosts)
        try:
            yield
        finally:
            for service in sources:
                await self._close(service, [])

    async def _close(self, service: str, hosts: Sequence[str | None]) -> None:
        """Let a Service of a member forward nothing from these hosts."""
        value = ",".join(filter(None, hosts)) or None
        patch = MergePatch({"metadata": {"annotations": {CUT_OFF: value}}})
        with suppress(NotFound):  # the member has left
            await self.client.patch(Service, patch, name=service, namespace=self.namespace)

    @asynccontextmanager
    async def slowed(self, member: str, name: str = "main") -> AsyncGenerator[None]:
        """Stop a member again and again during the block, so that it answers much later than usual."""
        usual = next(each.usual_milliseconds for each in (await self.get(name)).status.members if each.name == member)
        pause = min(max(usual * 40 / 1000, 0.6), 2.6)

        async def hinder() -> None:
            while True:
                async with self.paused(member, name):
                    await asyncio.sleep(pause)
                await asyncio.sleep(0.05)

        task = asyncio.create_task(hinder())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # ---- etcd

    async def rotated(self, old: bytes, name: str = "main") -> bytes:
        """Wait until the cluster has no longer the authority `old`, and return the one that it has."""

        async def check() -> bytes:
            assert (await self.get(name)).status.rotation == "", "the rotation has not ended"
            trusted = (await self.secret(f"{name}-client")).data["ca.crt"]
            assert old not in trusted, "the old authority is trusted"
            return trusted

        return await eventually(check)

    async def secret(self, name: str) -> Secret:
        return await self.client.get(Secret, name, namespace=self.namespace)

    async def trust(self, name: str = "main") -> Credentials | None:
        """Return what a client has to read from the Secret for clients; None without TLS."""
        cluster = await self.get(name)
        if not cluster.spec.tls.enabled:
            return None
        secret = await self.client.get(Secret, f"{name}-client", namespace=self.namespace)
        return credentials_in(secret, objects.host_for(cluster))

    @asynccontextmanager
    async def connect(self, service: str = "main", *, name: str = "main", within: float = 3.0) -> AsyncGenerator[Etcd]:
        """Connect to a member's Service, or to that of all members."""
        cluster = await self.get(name)
        found = await self.client.get(Service, service, namespace=self.namespace)
        url = objects.url(cluster, found.spec.cluster_ip or "", objects.CLIENT_PORT)
        async with Etcd(url, await self.trust(name), timeout=within) as etcd:
            yield etcd

    async def put(self, key: str, value: str, name: str = "main") -> None:
        async def write() -> None:
            async with self.connect(name, name=name) as etcd:
                try:
                    await etcd.put(key, value)
                except (Unreachable, Refused) as error:
                    raise AssertionError(str(error)) from error

        await eventually(write)

    async def read(self, key: str, name: str = "main") -> str | None:
        async def read() -> str | None:
            async with self.connect(name, name=name) as etcd:
                try:
                    found = (await etcd.get(key)).kvs
                except (Unreachable, Refused) as error:
                    raise AssertionError(str(error)) from error
                return found[0].value.decode() if found else None

        return await eventually(read)


def etcd_process(member: str, uid: str) -> Process:
    found = next((each for each in processes_of(uid) if each.name == member), None)
    assert found is not None, f"no process of etcd {member}"
    return found


def condition(cluster: EtcdCluster, type: str) -> Any:
    found = [each for each in cluster.status.conditions if each.type == type]
    assert len(found) == 1, f"no condition {type}"
    return found[0]


def describe(status: EtcdClusterStatus) -> str:
    members = [(each.name, each.version, each.healthy, each.learner) for each in status.members]
    return f"{members} {[(it.type, it.status, it.reason, it.message) for it in status.conditions]}"
