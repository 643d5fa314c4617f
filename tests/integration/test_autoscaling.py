"""HorizontalPodAutoscalers that scale by the usage of simulated Pods."""

from __future__ import annotations

import json
from urllib.parse import unquote

import msgspec
import pytest

from kubewright.apis.apiregistration.v1 import APIService
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
from kubewright.apis.core.v1 import Container, Pod, PodSpec, PodTemplateSpec, ResourceRequirements, Service
from kubewright.apis.meta.v1 import LabelSelector, ObjectMeta
from kubewright.client._patch import MergePatch
from kubewright.http.message import Request, Response
from kubewright.models import codec
from kubewright.testing import Cluster
from kubewright_controlplane import Environment
from kubewright_controlplane.apiserver.options import ServerOptions
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


VALUES = {
    "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue": [{"metricName": "queue", "value": "7"}] * 2,
    "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/services/web/hits": [{"value": "800m"}],
}
"""What another program measures, by path. A metric of Pods has a value for each of them."""
OF_PODS = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/%2A/load"


class Adapter:
    """An extension server for custom and external metrics."""

    def __init__(self) -> None:
        self.pods: list[str] = []
        self.queries: dict[str, str] = {}

    async def handle(self, request: Request) -> Response:
        self.queries[request.path] = unquote(request.query)
        values = VALUES.get(request.path, [])
        if request.path == OF_PODS:
            values = [{"describedObject": {"name": name}, "value": "3"} for name in self.pods]
        if request.path.count("/") > 3 and not values:
            return Response(404, {"content-type": "application/json"}, b'{"kind":"Status","code":404,"message":"none"}')
        found = {"kind": "APIResourceList", "resources": [], "items": values}
        return Response(200, {"content-type": "application/json"}, json.dumps(found).encode())


async def register(cluster: Cluster, name: str) -> None:
    """Have the API server pass requests for a group version on to the adapter."""
    version, _, group = name.partition(".")
    api = {
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "version": version,
            "service": {"name": "adapter", "namespace": "default"},
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }
    await cluster.client.create(codec.from_dict(APIService, api))
    await cluster.client.wait_for(
        APIService, name, lambda found: any(each.status == "True" for each in found.status.conditions)
    )


def metric(kind: str, name: str, target: dict[str, str], **more: object) -> dict[str, object]:
    identifier = {"name": name, "selector": {"matchLabels": {"of": "web"}}}
    return {"type": kind, kind.lower(): {"metric": identifier, "target": target, **more}}


async def test_a_deployment_follows_metrics_of_other_programs() -> None:
    adapter = Adapter()
    server = ServerOptions(webhooks={"adapter.default.svc": adapter.handle})
    async with Environment(server=server, options=ControlPlaneOptions(autoscaler_seconds=0.05)) as cluster:
        client = cluster.client
        spec = {"type": "ExternalName", "externalName": "adapter.default.svc", "ports": [{"port": 443}]}
        document = {"metadata": {"name": "adapter", "namespace": "default"}, "spec": spec}
        await client.create(codec.from_dict(Service, document))
        for name in ("v1beta1.external.metrics.k8s.io", "v1beta2.custom.metrics.k8s.io"):
            await register(cluster, name)
        await client.create(deployment("1m"))
        await client.wait_for(Deployment, "web", lambda found: found.status.ready_replicas == 2, namespace="default")
        adapter.pods = [each.metadata.name for each in await client.list(Pod, namespace="default", labels=LABELS)]

        wanted = autoscaler(MetricTarget(type="AverageValue"))
        service = {"apiVersion": "v1", "kind": "Service", "name": "web"}
        wanted.spec.metrics = [
            msgspec.convert(each, MetricSpec)
            for each in (
                metric("External", "queue", {"type": "AverageValue", "averageValue": "4"}),
                metric("Object", "hits", {"type": "Value", "value": "1"}, describedObject=service),
                metric("Pods", "load", {"type": "AverageValue", "averageValue": "3"}),
            )
        ]
        await client.create(wanted)
        await client.wait_for(Deployment, "web", lambda found: found.status.ready_replicas == 4, namespace="default")

        def is_complete(found: HorizontalPodAutoscaler) -> bool:
            return found.status.current_replicas == 4 and len(found.status.current_metrics) == 3

        hpa = await client.wait_for(HorizontalPodAutoscaler, "web", is_complete, namespace="default")
        external, of_object, of_pods = hpa.status.current_metrics
        assert external.external is not None
        assert external.external.current.average_value in ("3500m", "7")
        assert of_object.object_ is not None
        assert of_object.object_.current.value == "800m"
        assert of_pods.pods is not None
        assert of_pods.pods.current.average_value == "3"
        assert adapter.queries[OF_PODS] == "labelSelector=app=web&metricLabelSelector=of=web"
        assert set(VALUES) < set(adapter.queries)
