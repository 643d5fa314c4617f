"""The children of a WebServer."""

from typing import Final

from kubewright import ObjectMeta
from kubewright.apis.apps.v1 import Deployment, DeploymentSpec
from kubewright.apis.core.v1 import (
    Container,
    ContainerPort,
    PodSpec,
    PodTemplateSpec,
    Service,
    ServicePort,
    ServiceSpec,
)
from kubewright.apis.meta.v1 import LabelSelector

from webserver_operator.api.v1.webserver import WebServer

PORT: Final = 80
NODE_PORT: Final = 30010


def labels_for(web: WebServer) -> dict[str, str]:
    return {"app": "webserver", "webserver_cr": web.metadata.name}


def deployment_for(web: WebServer) -> Deployment:
    """Return the Deployment, with the replicas and the image of the spec."""
    labels = labels_for(web)
    container = Container(name="webserver", image=web.spec.image, ports=[ContainerPort(container_port=PORT)])
    return Deployment(
        metadata=ObjectMeta(name=web.metadata.name, labels=labels),
        spec=DeploymentSpec(
            replicas=web.spec.replicas,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[container])),
        ),
    )


def service_for(web: WebServer) -> Service:
    """Return the Service, with port 80 in the cluster and port 30010 on every node."""
    labels = labels_for(web)
    port = ServicePort(name="http", port=PORT, target_port=PORT, node_port=NODE_PORT, protocol="TCP")
    return Service(
        metadata=ObjectMeta(name=f"{web.metadata.name}-service", labels=labels),
        spec=ServiceSpec(type="NodePort", selector=labels, ports=[port]),
    )
