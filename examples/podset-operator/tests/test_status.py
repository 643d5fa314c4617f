"""The status of a PodSet, the number of writes, and validation."""

import asyncio
import shutil
from collections.abc import Callable

import pytest
from kubewright import Config, Invalid, Manager, ObjectMeta
from kubewright.apis.autoscaling.v1 import Scale
from kubewright.apis.autoscaling.v2 import (
    CrossVersionObjectReference,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
)
from kubewright.apis.events.v1 import Event
from kubewright.client import MergePatch, Transport, Unstructured
from kubewright.testing import Faults, eventually

from podset_operator.api.v1.podset import PodSet
from podsets import PodSets, ready_condition

Loose = Unstructured.of(PodSet.__api__)
NewOperator = Callable[[Config | Transport], Manager]


async def test_the_status_lists_the_pods_and_counts_the_ready_ones(podsets: PodSets, operator: Manager) -> None:
    await podsets.create(replicas=4)
    podset = await podsets.completes(replicas=4)
    assert ready_condition(podset).message == "4 of 4 Pods are ready"
    assert podset.status.reserved_pod_names == []
    await podsets.make_unready((await podsets.pods())[0])

    async def is_told() -> None:
        podset = await podsets.get()
        assert (podset.status.replicas, podset.status.ready_replicas) == (4, 3)
        ready = ready_condition(podset)
        assert (ready.status, ready.reason, ready.message) == ("False", "PodsNotReady", "3 of 4 Pods are ready")

    await eventually(is_told)


async def test_creates_and_deletes_are_recorded_as_events(podsets: PodSets, operator: Manager) -> None:
    await podsets.create(replicas=1)
    [name] = (await podsets.completes(replicas=1)).status.pod_names
    await podsets.scale(replicas=0)
    await podsets.completes(replicas=0)

    async def is_told() -> None:
        events = await podsets.client.list(Event, namespace=podsets.namespace)
        told = {(each.reason, each.note) for each in events if each.regarding and each.regarding.kind == "PodSet"}
        assert told == {("Created", f"Created Pods {name}"), ("Deleted", f"Deleted Pods {name}")}

    await eventually(is_told)


async def test_the_scale_subresource_has_the_selector_and_the_count(podsets: PodSets, operator: Manager) -> None:
    await podsets.create(replicas=2)
    await podsets.completes(replicas=2)
    scale = await podsets.client.subresource(PodSet, "x", "scale", namespace=podsets.namespace).get(Scale)
    assert (scale.spec.replicas, scale.status.replicas, scale.status.selector) == (2, 2, "app=x,version=v0.1")


async def test_kubectl_scales_a_podset(podsets: PodSets, operator: Manager) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("there is no kubectl on the PATH")
    await podsets.create(replicas=1)

    async def is_scaled() -> None:
        """Scale with kubectl, once the API server lists the kind in discovery."""
        kubeconfig = podsets.cluster.kubeconfig()
        process = await asyncio.create_subprocess_exec(
            kubectl,
            f"--kubeconfig={kubeconfig}",
            f"--cache-dir={kubeconfig}.cache",  # by default it remembers for hours which kinds
            f"--namespace={podsets.namespace}",
            *("scale", "podset/x", "--replicas=5"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, complaint = await process.communicate()
        assert process.returncode == 0, complaint.decode()
        assert said == b"podset.batch.tutorial.kubebuilder.io/x scaled\n"

    await eventually(is_scaled)
    await podsets.completes(replicas=5)


async def test_an_autoscaler_scales_a_podset(podsets: PodSets, operator: Manager, kubewright_target: str) -> None:
    if kubewright_target == "embedded":
        pytest.skip("the embedded control plane has no autoscaler")
    await podsets.create(replicas=1)
    api = PodSet.__api__
    reference = CrossVersionObjectReference(api_version=f"{api.group}/{api.version}", kind=api.kind, name="x")
    spec = HorizontalPodAutoscalerSpec(scale_target_ref=reference, min_replicas=4, max_replicas=6)
    metadata = ObjectMeta(name="x", namespace=podsets.namespace)
    await podsets.client.create(HorizontalPodAutoscaler(metadata=metadata, spec=spec))
    await podsets.completes(replicas=4)


async def test_nothing_is_written_when_nothing_differs(
    podsets: PodSets, account: Config, new_operator: NewOperator
) -> None:
    faults = Faults(account)
    async with new_operator(faults) as operator:
        await podsets.create(replicas=3)
        podset = await podsets.completes(replicas=3)
        await faults.rest()
        before, looks = faults.writes, reconciles(operator)
        for number in range(5):
            podset = await podsets.client.patch(podset, MergePatch({"metadata": {"annotations": {"n": str(number)}}}))
            await eventually(has_looked, operator, looks + number + 1)
        assert faults.writes == before
    again = Faults(account)
    async with new_operator(again) as operator:
        await eventually(has_looked, operator, 1)
        assert again.writes == 0
    assert (await podsets.get()).metadata.resource_version == podset.metadata.resource_version


async def test_an_edited_status_is_restored(podsets: PodSets, operator: Manager) -> None:
    await podsets.create(replicas=2)
    podset = await podsets.completes(replicas=2)
    edited = {"podNames": ["nobody"], "readyReplicas": 17, "reservedPodNames": ["x-pod-zzzzz"], "conditions": []}
    await podsets.client.patch(podset, MergePatch({"status": edited}), subresource="status")
    await podsets.completes(replicas=2)


@pytest.mark.parametrize(
    ("name", "replicas", "said"),
    [
        pytest.param("x", -1, "spec.replicas in body should be greater than or equal to 0", id="below zero"),
        pytest.param("x", "two", 'spec.replicas in body must be of type integer: "string"', id="no number"),
        pytest.param("x", 2**31, "spec.replicas", id="too many"),
        pytest.param("x" * 64, 1, "use at most 63 characters", id="long name"),
    ],
)
async def test_an_invalid_podset_is_rejected(podsets: PodSets, name: str, replicas: object, said: str) -> None:
    wrong = Loose(metadata=ObjectMeta(name=name, namespace=podsets.namespace), content={"spec": {"replicas": replicas}})
    with pytest.raises(Invalid) as refused:
        await podsets.client.create(wrong)
    assert said in str(refused.value)


async def test_a_name_may_be_as_long_as_a_label(podsets: PodSets, operator: Manager) -> None:
    await podsets.create("x" * 63, replicas=1)
    await podsets.completes("x" * 63, replicas=1)


def reconciles(operator: Manager) -> int:
    return sum(operator.metrics.controllers["podset"].outcomes.values())


async def has_looked(operator: Manager, times: int) -> None:
    assert reconciles(operator) >= times
