"""The children of a WebServer."""

from typing import Final

from kubewright import ObjectMeta
from kubewright.apis.apps.v1 import Deployment, DeploymentSpec
from kubewright.apis.core.v1 import (
    Container,
    ContainerPort,
    EnvVar,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
    Service,
    ServicePort,
    ServiceSpec,
)
from kubewright.apis.meta.v1 import LabelSelector

from webfarm_operator.api.v1.webserver import WebServer

PORT: Final = 80
"""The port of the container."""


def labels_for(web: WebServer) -> dict[str, str]:
    return {"app": "webfarm", "webserver": web.metadata.name}


def deployment_for(web: WebServer) -> Deployment:
    labels = labels_for(web)
    container = Container(
        name="webserver",
        image=web.spec.image,
        ports=[ContainerPort(container_port=PORT)],
        env=[EnvVar(name=each.name, value=each.value) for each in web.spec.env],
        resources=ResourceRequirements(requests={"memory": web.spec.memory}, limits={"memory": web.spec.memory}),
    )
    return Deployment(
        metadata=ObjectMeta(name=web.metadata.name, labels=labels),
        spec=DeploymentSpec(
            replicas=1 if web.spec.replicas is None else web.spec.replicas,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[container])),
        ),
    )


def service_for(web: WebServer) -> Service:
    labels = labels_for(web)
    port = ServicePort(name="http", port=web.spec.service.port, target_port=PORT, protocol="TCP")
    return Service(
        metadata=ObjectMeta(name=web.metadata.name, labels=labels),
        spec=ServiceSpec(type=web.spec.service.type, selector=labels, ports=[port]),
    )
