"""Helpers: what a user does with PodSets, and what a user sees."""

from kubewright import Condition, ObjectMeta
from kubewright.apis.autoscaling.v1 import Scale
from kubewright.apis.core.v1 import Pod
from kubewright.client import MergePatch
from kubewright.controllers import is_controlled_by
from kubewright.testing import Cluster, eventually

from podset_operator.api.v1.podset import PodSet, PodSetSpec


class PodSets:
    """The PodSets of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.namespace = namespace

    async def create(self, name: str = "x", replicas: int = 3) -> PodSet:
        metadata = ObjectMeta(name=name, namespace=self.namespace)
        return await self.client.create(PodSet(metadata=metadata, spec=PodSetSpec(replicas=replicas)))

    async def get(self, name: str = "x") -> PodSet:
        return await self.client.get(PodSet, name, namespace=self.namespace)

    async def scale(self, name: str = "x", *, replicas: int) -> None:
        """Scale a PodSet as kubectl and autoscalers do."""
        scale = self.client.subresource(PodSet, name, "scale", namespace=self.namespace)
        await scale.patch(Scale, MergePatch({"spec": {"replicas": replicas}}))

    async def delete(self, name: str = "x") -> None:
        await self.client.delete(PodSet, name, namespace=self.namespace)

    async def all_pods(self) -> list[Pod]:
        return list(await self.client.list(Pod, namespace=self.namespace))

    async def pods(self, name: str = "x") -> list[Pod]:
        """Return the live Pods of a PodSet."""
        podset = await self.get(name)
        return [pod for pod in await self.all_pods() if is_controlled_by(pod, podset) and lives(pod)]

    async def is_complete(self, name: str = "x", *, replicas: int = 3) -> PodSet:
        """Assert that the desired number of Pods exists, and that the status reports it. Return the PodSet."""
        podset = await self.get(name)
        status, ready = podset.status, ready_condition(podset)
        assert (ready.status, ready.reason) == ("True", "AllPodsReady"), ready.message
        assert status.observed_generation == ready.observed_generation == podset.metadata.generation
        assert podset.spec.replicas == status.replicas == status.ready_replicas == replicas
        assert status.pod_names == sorted(pod.metadata.name for pod in await self.pods(name))
        assert len(status.pod_names) == replicas
        return podset

    async def completes(self, name: str = "x", *, replicas: int = 3) -> PodSet:
        return await eventually(self.is_complete, name, replicas=replicas)

    async def patch_pod(self, pod: Pod, patch: dict[str, object], subresource: str | None = None) -> Pod:
        return await self.client.patch(pod, MergePatch(patch), subresource=subresource)

    async def make_unready(self, pod: Pod) -> None:
        """Use the annotation for simulated Pods of an embedded control plane, and the status for all others."""
        pod = await self.patch_pod(pod, {"metadata": {"annotations": {"simulation.kubewright.dev/phase": "NotReady"}}})
        await self.patch_pod(pod, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "status")


def lives(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in ("Failed", "Succeeded")


def ready_condition(podset: PodSet) -> Condition:
    found = [each for each in podset.status.conditions if each.type == "Ready"]
    assert len(found) == 1, podset.status.conditions
    return found[0]
