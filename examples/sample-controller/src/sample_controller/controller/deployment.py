"""The Deployment that a Foo stands for."""

from collections.abc import Callable, Mapping
from typing import Final

from kubewright import ObjectMeta, owner_reference
from kubewright.apis.apps.v1 import Deployment, DeploymentSpec
from kubewright.apis.core.v1 import Container, PodSpec, PodTemplateSpec
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.controllers import Request

from sample_controller.api.v1alpha1.foo import Foo

CONTAINER: Final = "nginx"
IMAGE: Final = "nginx:latest"


def deployment_of(foo: Foo) -> Request:
    """Where it is."""
    return Request(foo.metadata.namespace, foo.spec.deployment_name)


def deployment_for(foo: Foo) -> Deployment:
    """What it should be; what is not stated here is for others to say."""
    metadata = ObjectMeta(name=foo.spec.deployment_name, namespace=foo.metadata.namespace)
    metadata.owner_references = [owner_reference(foo)]
    labels = {"app": CONTAINER, "controller": foo.metadata.name}
    container = Container(name=CONTAINER, image=IMAGE)
    return Deployment(
        metadata=metadata,
        spec=DeploymentSpec(
            replicas=foo.spec.replicas,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[container])),
        ),
    )


def _image(deployment: Deployment) -> str | None:
    containers = deployment.spec.template.spec.containers
    return next((each.image for each in containers if each.name == CONTAINER), None)


FIELDS: Final[Mapping[str, Callable[[Deployment], object]]] = {
    "spec.replicas": lambda deployment: deployment.spec.replicas,
    "image": _image,
}
"""What may be changed of a Deployment that is there: by hand, or for a Foo that has changed."""


def differences(found: Deployment, wanted: Deployment) -> dict[str, tuple[object, object]]:
    """Of the fields that are wanted, those that are otherwise: what is, and what should be."""
    values = {path: (value(found), value(wanted)) for path, value in FIELDS.items()}
    return {path: (is_, should_be) for path, (is_, should_be) in values.items() if should_be not in (None, is_)}
