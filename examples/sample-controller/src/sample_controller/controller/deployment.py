"""The Deployment of a Foo."""

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
    """Return the namespace and name of the Deployment of `foo`."""
    return Request(foo.metadata.namespace, foo.spec.deployment_name)


def deployment_for(foo: Foo) -> Deployment:
    """Return the desired Deployment. Other clients may set the fields that it leaves out."""
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
"""The fields that the controller restores or updates."""


def differences(found: Deployment, wanted: Deployment) -> dict[str, tuple[object, object]]:
    """Return the fields that differ: path, current value and desired value."""
    values = {path: (value(found), value(wanted)) for path, value in FIELDS.items()}
    return {path: (current, desired) for path, (current, desired) in values.items() if desired not in (None, current)}
