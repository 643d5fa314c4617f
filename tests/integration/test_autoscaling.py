"""HorizontalPodAutoscalers that scale by the usage of simulated Pods."""

from __future__ import annotations

import pytest

from kubewright.apis.apps.v1 import Deployment, DeploymentSpec
from kubewright.apis.autoscaling.v2 import (
    CrossVersionObjectReference,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerSpec,
    HPAScalingRules,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from kubewright.apis.core.v1 import Container, Pod, PodSpec, PodTemplateSpec, ResourceRequirements
from kubewright.apis.meta.v1 import LabelSelector, ObjectMeta
from kubewright.client._patch import MergePatch
from kubewright.testing import Cluster
from kubewright_controlplane import Environment
from kubewright_controlplane.plane import ControlPlaneOptions

LABELS = {"app": "web"}
AT_ONCE = HPAScalingRules(stabilization_window_seconds=0)


def deployment(cpu: str) -> Deployment:
    resources = ResourceRequirements(requests={"cpu": "200m"})
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=LABELS, annotations={"simulation.kubewright.dev/cpu": cpu}),
        spec=PodSpec(containers=[Container(name="c", image="nginx:1", resources=resources)]),
    )
    spec = DeploymentSpec(replicas=2, selector=LabelSelector(match_labels=LABELS), template=template)
    return Deployment(metadata=ObjectMeta(name="web", namespace="default"), spec=spec)


def autoscaler(target: MetricTarget) -> HorizontalPodAutoscaler:
    metric = MetricSpec(type="Resource", resource=ResourceMetricSource(name="cpu", target=target))
    return HorizontalPodAutoscaler(
        metadata=ObjectMeta(name="web", namespace="default"),
        spec=HorizontalPodAutoscalerSpec(
            scale_target_ref=CrossVersionObjectReference(api_version="apps/v1", kind="Deployment", name="web"),
            max_replicas=5,
            metrics=[metric],
            behavior=HorizontalPodAutoscalerBehavior(scale_up=AT_ONCE, scale_down=AT_ONCE),
        ),
    )


async def use(cluster: Cluster, cpu: str) -> None:
    """Change what the existing Pods use."""
    for pod in await cluster.client.list(Pod, namespace="default", labels=LABELS):
        change = {"metadata": {"annotations": {"simulation.kubewright.dev/cpu": cpu}}}
        await cluster.client.patch(pod, MergePatch(change))


def is_limited(hpa: HorizontalPodAutoscaler) -> bool:
    reasons = {each.type: each.reason for each in hpa.status.conditions}
    return reasons.get("ScalingLimited") == "TooManyReplicas"


@pytest.mark.parametrize("metrics", [False, True], ids=["simulated", "metrics API"])
async def test_a_deployment_follows_the_usage_of_its_pods(*, metrics: bool) -> None:
    options = ControlPlaneOptions(autoscaler_seconds=0.05, metrics=metrics)
    async with Environment(options=options) as cluster:
        client = cluster.client
        await client.create(deployment("80%"))
        await client.wait_for(Deployment, "web", lambda found: found.status.ready_replicas == 2, namespace="default")
        await client.create(autoscaler(MetricTarget(type="Utilization", average_utilization=40)))
        await client.wait_for(Deployment, "web", lambda found: found.status.ready_replicas == 5, namespace="default")

        hpa = await client.wait_for(HorizontalPodAutoscaler, "web", is_limited, namespace="default")
        current = hpa.status.current_metrics[0].resource
        assert current is not None
        assert (current.current.average_utilization, current.current.average_value) == (80, "160m")
        active = next(each for each in hpa.status.conditions if each.type == "ScalingActive")
        assert active.message == (
            "the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of "
            "request)"
        )
        await use(cluster, "10m")
        await client.wait_for(Deployment, "web", lambda found: found.status.ready_replicas == 1, namespace="default")
