"""The API: what a WebServer is, in version v1."""

from typing import Annotated

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.apis.meta.v1 import Int64


class WebServerSpec(Model):
    """What a WebServer should be."""

    replicas: Annotated[int, m.Minimum(0)] = 1
    """The number of replicas that the webserver should have"""
    image: Annotated[str, m.MinLength(1), m.Pattern(r"^\S*$")]
    """The container image of the webserver"""


class WebServerStatus(Model):
    """What a WebServer is."""

    observed_generation: Int64 = 0
    """The generation of the spec that this status is about"""
    available_replicas: int = 0
    """How many replicas serve at present"""
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready says whether it is as its spec asks for, and why not."""


class WebServer(
    CustomResource,
    group="my.domain",
    version="v1",
    columns=[
        PrintColumn("Replicas", ".spec.replicas", type="integer"),
        PrintColumn("Image", ".spec.image"),
        PrintColumn("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
    ],
    markers=[
        m.XValidation(
            "self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$') && size(self.metadata.name) <= 55",
            message="its Service is called <name>-service: the name has to be of lower-case letters, digits and '-', "
            "to begin with a letter, and to have at most 55 characters",
        ),
    ],
):
    """WebServer is the Schema for the webservers API."""

    spec: WebServerSpec
    status: WebServerStatus = field(default_factory=WebServerStatus)
