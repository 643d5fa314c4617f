"""The behavior of PodSet, as users see it."""

import asyncio

import pytest
from kubewright import Manager
from kubewright.apis.core.v1 import Container, Pod, PodSpec
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.controllers import is_controlled_by
from kubewright.testing import eventually

from podsets import PodSets

pytestmark = pytest.mark.usefixtures("operator")

HOLD = "podsets.example.com/hold"


async def test_a_podset_creates_its_pods(podsets: PodSets) -> None:
    podset = await podsets.create(replicas=3)
    await podsets.completes(replicas=3)
    for pod in await podsets.all_pods():
        assert pod.metadata.generate_name == "x-pod-"
        assert pod.metadata.name.startswith("x-pod-")
        assert len(pod.metadata.name) == len("x-pod-") + 5
        assert pod.metadata.labels == {"app": "x", "version": "v0.1"}
        [container] = pod.spec.containers
        assert (container.name, container.image, container.command) == ("busybox", "busybox", ["sleep", "3600"])
        [owner] = pod.metadata.owner_references
        described = (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller)
        assert described == ("batch.tutorial.kubebuilder.io/v1", "PodSet", "x", podset.metadata.uid, True)


async def test_scaling_keeps_the_remaining_pods(podsets: PodSets) -> None:
    await podsets.create(replicas=2)
    few = (await podsets.completes(replicas=2)).status.pod_names
    await podsets.scale(replicas=5)
    many = (await podsets.completes(replicas=5)).status.pod_names
    assert set(few) < set(many)
    await podsets.scale(replicas=1)
    [last] = (await podsets.completes(replicas=1)).status.pod_names
    assert last in many
    await podsets.scale(replicas=0)
    await podsets.completes(replicas=0)


async def test_a_deleted_pod_is_replaced_at_once(podsets: PodSets) -> None:
    await podsets.create(replicas=2)
    before = (await podsets.completes(replicas=2)).status.pod_names
    lost = (await podsets.pods())[0]
    lost = await podsets.patch_pod(lost, {"metadata": {"finalizers": [HOLD]}})
    await podsets.client.delete(lost)
    after = (await podsets.completes(replicas=2)).status.pod_names
    assert lost.metadata.name not in after
    assert len(set(before) & set(after)) == 1
    still = await podsets.client.get(Pod, lost.metadata.name, namespace=podsets.namespace)
    assert still.metadata.deletion_timestamp is not None
    await podsets.patch_pod(still, {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_a_pod_that_ended_is_replaced_and_kept(podsets: PodSets, phase: str) -> None:
    await podsets.create(replicas=2)
    await podsets.completes(replicas=2)
    ended = (await podsets.pods())[0]
    await podsets.patch_pod(ended, {"status": {"phase": phase}}, "status")

    async def is_replaced() -> None:
        podset = await podsets.is_complete(replicas=2)
        assert ended.metadata.name not in podset.status.pod_names

    await eventually(is_replaced)
    left = await podsets.client.get(Pod, ended.metadata.name, namespace=podsets.namespace)
    assert left.status.phase == phase
    assert left.metadata.deletion_timestamp is None


async def test_foreign_pods_with_the_same_labels_are_left_alone(podsets: PodSets) -> None:
    metadata = ObjectMeta(name="stranger", namespace=podsets.namespace, labels={"app": "x", "version": "v0.1"})
    spec = PodSpec(containers=[Container(name="busybox", image="busybox")])
    stranger = await podsets.client.create(Pod(metadata=metadata, spec=spec))
    await podsets.create(replicas=2)
    await podsets.completes(replicas=2)
    await podsets.scale(replicas=0)
    await podsets.completes(replicas=0)
    found = await podsets.client.get(Pod, "stranger", namespace=podsets.namespace)
    assert found.metadata.uid == stranger.metadata.uid
    assert found.metadata.owner_references == []
    assert found.metadata.deletion_timestamp is None


async def test_a_pod_without_its_label_is_replaced_and_deleted_with_the_podset(podsets: PodSets) -> None:
    await podsets.create(replicas=2)
    await podsets.completes(replicas=2)
    taken = (await podsets.pods())[0]
    await podsets.patch_pod(taken, {"metadata": {"labels": {"app": "debugged"}}})

    async def is_replaced() -> None:
        podset = await podsets.get()
        assert len(podset.status.pod_names) == 2
        assert taken.metadata.name not in podset.status.pod_names

    await eventually(is_replaced)
    assert is_controlled_by(
        await podsets.client.get(Pod, taken.metadata.name, namespace=podsets.namespace), await podsets.get()
    )
    await podsets.delete()
    await eventually(has_no_pods, podsets)


async def test_unready_pods_are_deleted_first_then_the_youngest(podsets: PodSets) -> None:
    await podsets.create(replicas=3)
    old = (await podsets.completes(replicas=3)).status.pod_names
    await asyncio.sleep(1.1)  # the server keeps whole seconds
    await podsets.scale(replicas=5)
    young = set((await podsets.completes(replicas=5)).status.pod_names) - set(old)
    sick = next(pod for pod in await podsets.pods() if pod.metadata.name == old[1])
    await podsets.make_unready(sick)

    async def is_known() -> None:
        assert (await podsets.get()).status.ready_replicas == 4

    await eventually(is_known)
    await podsets.scale(replicas=4)
    assert (await podsets.completes(replicas=4)).status.pod_names == sorted({*old, *young} - {old[1]})
    await podsets.scale(replicas=2)
    assert (await podsets.completes(replicas=2)).status.pod_names == [old[0], old[2]]


async def test_all_pods_are_deleted_with_the_podset(podsets: PodSets, operator: Manager) -> None:
    await podsets.create(replicas=3)
    await podsets.completes(replicas=3)
    await podsets.delete()
    await eventually(has_no_pods, podsets)


async def has_no_pods(podsets: PodSets) -> None:
    assert await podsets.all_pods() == []
