"""Helpers: what a user does with volumes and operations, and what a user sees."""

import secrets
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

from kubewright import Condition, Config, Manager, NotFound, ObjectMeta
from kubewright.apis.core.v1 import (
    Container,
    HostPathVolumeSource,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    PersistentVolumeSpec,
    Pod,
    PodSpec,
    Volume,
    VolumeResourceRequirements,
)
from kubewright.apis.events.v1 import Event as KubernetesEvent
from kubewright.apis.storage.v1 import StorageClass
from kubewright.cache import Event, Informer
from kubewright.client import MergePatch
from kubewright.testing import Clock, Cluster, Faults, eventually, gone

from demovolume_operator.api.v1.demovolume import DemoVolume, DemoVolumeSpec
from demovolume_operator.api.v1.volumeoperation import VolumeOperation, VolumeOperationSpec

NO_PROVISIONER = "kubernetes.io/no-provisioner"


class NewOperator(Protocol):
    """Creates an operator, as a new process would. With `Faults`, its requests may fail."""

    def __call__(self, access: Config | Faults, clock: Clock | None = None) -> Manager: ...


class ClaimHistory:
    """The uids of all claims that existed, by name."""

    def __init__(self) -> None:
        self._uids: defaultdict[str, list[str]] = defaultdict(list)

    def note(self, event: Event[PersistentVolumeClaim]) -> None:
        if event.new is not None and event.new.uid not in self._uids[event.key.name]:
            self._uids[event.key.name].append(event.new.uid)

    async def of(self, name: str, number: int) -> list[str]:
        """Return the uids of the claims of a name in order of creation, once there are `number` of them."""

        async def check() -> list[str]:
            assert len(self._uids[name]) == number, self._uids[name]
            return list(self._uids[name])

        return await eventually(check)


class Volumes:
    """The volumes of one namespace, and a storage class without a provisioner.

    The tests do the work of a provisioner, so that they behave the same on every control plane.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.client = cluster.client
        self.namespace = namespace
        self.storage_class = namespace

    # ---- storage

    async def offer(self, *sizes: str, expandable: bool = True) -> None:
        """Create the storage class, and a PersistentVolume of each size in it."""
        await self.client.create(
            StorageClass(
                metadata=ObjectMeta(name=self.storage_class),
                provisioner=NO_PROVISIONER,
                allow_volume_expansion=expandable,
            )
        )
        for size in sizes:
            await self.add_storage(size)

    async def add_storage(self, size: str) -> None:
        await self.client.create(
            PersistentVolume(
                metadata=ObjectMeta(generate_name=f"{self.namespace}-", labels={"test": self.namespace}),
                spec=PersistentVolumeSpec(
                    access_modes=["ReadWriteOnce"],
                    capacity={"storage": size},
                    storage_class_name=self.storage_class,
                    host_path=HostPathVolumeSource(path="/tmp"),
                ),
            )
        )

    async def expand(self, name: str, size: str) -> None:
        """Expand the storage, as the resizer of a CSI driver does."""
        claim = await self.claim(name)
        larger = MergePatch({"spec": {"capacity": {"storage": size}}})
        await self.client.patch(PersistentVolume, larger, name=claim.spec.volume_name or "")
        done = MergePatch({"status": {"capacity": {"storage": size}}})
        await self.client.patch(claim, done, subresource="status")

    async def clean_up(self) -> None:
        """Delete the cluster-scoped objects."""
        await self.client.delete_all_of(PersistentVolume, labels={"test": self.namespace})
        try:
            await self.client.delete(StorageClass, self.storage_class)
        except NotFound:
            return

    # ---- volumes and their claims

    async def create(
        self, name: str = "data", *, size: int = 1, called: str = "Data", storage_class: str = ""
    ) -> DemoVolume:
        spec = DemoVolumeSpec(name=called, size=size, storage_class_name=storage_class or self.storage_class)
        metadata = ObjectMeta(name=name, namespace=self.namespace)
        return await self.client.create(DemoVolume(metadata=metadata, spec=spec))

    async def get(self, name: str = "data") -> DemoVolume:
        return await self.client.get(DemoVolume, name, namespace=self.namespace)

    async def change(self, name: str = "data", /, **spec: object) -> None:
        await self.client.patch(DemoVolume, MergePatch({"spec": spec}), name=name, namespace=self.namespace)

    async def nudge(self, name: str = "data") -> None:
        """Trigger a reconcile of the volume."""
        note = MergePatch({"metadata": {"annotations": {"nudged": secrets.token_hex(4)}}})
        await self.client.patch(DemoVolume, note, name=name, namespace=self.namespace)

    async def delete(self, name: str = "data") -> None:
        await self.client.delete(DemoVolume, name, namespace=self.namespace)

    async def claim(self, name: str = "data") -> PersistentVolumeClaim:
        return await self.client.get(PersistentVolumeClaim, name, namespace=self.namespace)

    async def create_foreign_claim(self, name: str = "data") -> PersistentVolumeClaim:
        """Create a claim without an owner."""
        spec = PersistentVolumeClaimSpec(
            access_modes=["ReadWriteOnce"],
            resources=VolumeResourceRequirements(requests={"storage": "1Gi"}),
            storage_class_name=self.storage_class,
        )
        metadata = ObjectMeta(name=name, namespace=self.namespace)
        return await self.client.create(PersistentVolumeClaim(metadata=metadata, spec=spec))

    async def reaches(self, reason: str, name: str = "data") -> DemoVolume:
        """Wait until the condition Ready has this reason for the current spec, and return the volume."""

        async def check() -> DemoVolume:
            volume = await self.get(name)
            ready = condition(volume, "Ready")
            assert ready.reason == reason, ready
            assert ready.observed_generation == volume.status.observed_generation == volume.metadata.generation
            return volume

        return await eventually(check)

    async def reaches_after_retries(self, reason: str) -> None:
        """Trigger reconciles until the condition Ready has this reason: the server's own caches may lag."""

        async def check() -> None:
            ready = condition(await self.get(), "Ready")
            if ready.reason != reason:
                await self.nudge()
            assert ready.reason == reason, ready

        await eventually(check)

    # ---- Pods

    async def use(self, claim: str = "data", *, pod: str = "web") -> Pod:
        """Create a Pod on a node that uses the claim."""
        [node, *_] = await self.client.list(Node)
        source = PersistentVolumeClaimVolumeSource(claim_name=claim)
        spec = PodSpec(
            node_name=node.metadata.name,
            containers=[Container(name="web", image="nginx")],
            volumes=[Volume(name="data", persistent_volume_claim=source)],
        )
        metadata = ObjectMeta(name=pod, namespace=self.namespace)
        return await self.client.create(Pod(metadata=metadata, spec=spec))

    async def stop_using(self, pod: str = "web") -> None:
        await self.client.delete(Pod, pod, namespace=self.namespace, grace_period=0)
        await gone(self.client.get, Pod, pod, namespace=self.namespace)

    # ---- operations

    async def rebuild(self, name: str = "op", *, volume: str = "data", deadline: int = 3600) -> VolumeOperation:
        spec = VolumeOperationSpec(volume=volume, type="Rebuild", starting_deadline_seconds=deadline)
        metadata = ObjectMeta(name=name, namespace=self.namespace)
        return await self.client.create(VolumeOperation(metadata=metadata, spec=spec))

    async def operation(self, name: str = "op") -> VolumeOperation:
        return await self.client.get(VolumeOperation, name, namespace=self.namespace)

    async def comes_to(self, phase: str, reason: str, name: str = "op") -> VolumeOperation:
        """Wait until the operation has this phase and reason, and return it."""

        async def check() -> VolumeOperation:
            operation = await self.operation(name)
            assert (operation.status.phase, condition(operation, "Succeeded").reason) == (phase, reason), (
                operation.status
            )
            return operation

        return await eventually(check)

    # ---- Events and claims

    async def events(self, about: DemoVolume | VolumeOperation) -> list[tuple[str, str]]:
        """Return type and reason of the Events about an object, in order."""
        every = await self.client.list(KubernetesEvent, namespace=self.namespace)
        found = [each for each in every if each.regarding and each.regarding.uid == about.metadata.uid]
        found.sort(key=lambda each: str(each.event_time))
        return [(each.type or "", each.reason or "") for each in found]

    async def has_events(self, about: DemoVolume | VolumeOperation, *expected: tuple[str, str]) -> None:
        """Wait until these are the latest Events about an object."""

        async def check() -> None:
            assert (await self.events(about))[-len(expected) :] == list(expected)

        await eventually(check)

    @asynccontextmanager
    async def claim_history(self) -> AsyncGenerator[ClaimHistory]:
        """Record the claims that exist during the block."""
        seen = ClaimHistory()
        informer = Informer(self.client, PersistentVolumeClaim, namespaces=self.namespace)
        informer.add_handler(on_add=seen.note, on_update=seen.note)
        informer.start()
        try:
            await informer.wait_synced(timeout=60)
            yield seen
        finally:
            await informer.stop()


def condition(of: DemoVolume | VolumeOperation, type: str) -> Condition:
    found = [each for each in of.status.conditions if each.type == type]
    assert len(found) == 1, of.status.conditions
    return found[0]
