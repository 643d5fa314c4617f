"""Built-in kinds, as type checkers see them: fields that are always set need no check for None."""

from __future__ import annotations

from typing import assert_type

from kubewright.apis.apps.v1 import Deployment, DeploymentSpec
from kubewright.apis.coordination.v1 import Lease
from kubewright.apis.core.v1 import Container, Pod, PodCondition, PodSpec, PodTemplateSpec, Secret, Service, ServicePort
from kubewright.apis.meta.v1 import LabelSelector, MicroTime, ObjectMeta

labels = {"app": "web"}
deployment = Deployment(
    metadata=ObjectMeta(name="web"),
    spec=DeploymentSpec(
        selector=LabelSelector(match_labels=labels),
        template=PodTemplateSpec(
            metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[Container(name="web", image="nginx")])
        ),
    ),
)

assert_type(deployment.spec.replicas, int | None)
assert_type(deployment.spec.template.spec.containers[0].image, str | None)
assert_type(deployment.spec.template.metadata.labels, dict[str, str])
assert_type(deployment.status.available_replicas, int | None)
assert_type(Pod().status.conditions, list[PodCondition])
assert_type(Pod().metadata.name, str)
assert_type(Secret().data, dict[str, bytes])
assert_type(Lease().spec.renew_time, MicroTime | None)
assert_type(Service().spec.ports, list[ServicePort])
assert_type(Service().spec.ports[0].target_port, int | str | None)

Deployment(metadata=ObjectMeta(name="web"))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
DeploymentSpec(selector=LabelSelector())  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
Container(image="nginx")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
Pod(metadata="web")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
