"""The WebServer API, version v1."""

from typing import Annotated

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.apis.meta.v1 import Int64


class WebServerSpec(Model):
    """The desired state of a WebServer."""

    replicas: Annotated[int, m.Minimum(0)] = 1
    """The number of replicas that the webserver should have"""
    image: Annotated[str, m.MinLength(1), m.Pattern(r"^\S*$")]
    """The container image of the webserver"""


class WebServerStatus(Model):
    """The observed state of a WebServer."""

    observed_generation: Int64 = 0
    """The generation of the spec that this status describes"""
    available_replicas: int = 0
    """The number of replicas that are available"""
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready is True when the webserver matches its spec; otherwise its message says why not."""


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
            message="the name is part of the Service's name, <name>-service: use lower-case letters, digits and '-', "
            "begin with a letter, and use at most 55 characters",
        ),
    ],
):
    """WebServer is the Schema for the webservers API."""

    spec: WebServerSpec
    status: WebServerStatus = field(default_factory=WebServerStatus)
