"""Defaults and checks of WebServers that the schema cannot express. Both see requests of both versions, as v1."""

from typing import Final

from kubewright.machinery import fields
from kubewright.machinery.quantity import Quantity
from kubewright.webhooks import AdmissionContext, FieldError, defaulter, validator

from webfarm_operator.api.v1.webserver import WebServer

LARGEST: Final = Quantity.parse("64G")
"""The memory of all Pods of a WebServer."""


@defaulter(WebServer)
def set_defaults(ctx: AdmissionContext[WebServer]) -> None:
    """Run two Pods if the Service can be reached from outside of the cluster."""
    spec = ctx.object.spec
    if spec.replicas is None:
        spec.replicas = 1 if spec.service.type == "ClusterIP" else 2


@validator(WebServer)
def validate(ctx: AdmissionContext[WebServer]) -> list[FieldError]:
    """Limit the memory of all Pods together, and warn of images that can change."""
    spec = ctx.object.spec
    if not has_version(spec.image):
        ctx.warn(f"spec.image: {spec.image} can change at any time; name a version, such as nginx:1.23.1")
    memory = Quantity.parse(spec.memory)
    if memory <= Quantity.parse("0"):
        return [fields.invalid("spec.memory", spec.memory, "must be greater than 0")]
    total = Quantity.from_int(memory.value * (spec.replicas or 0))
    if total > LARGEST:
        message = (
            f"{spec.replicas} Pods would use {total}, and a WebServer may use {LARGEST}; use fewer or smaller Pods"
        )
        return [fields.invalid("spec.memory", spec.memory, message)]
    return []


def has_version(image: str) -> bool:
    """Return whether an image has a digest, or a tag other than latest."""
    tag = image.rpartition("/")[2].partition(":")[2]
    return "@" in image or tag not in ("", "latest")
