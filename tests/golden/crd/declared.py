"""The types that the CRDs beside this file are made from; `types.go.txt` has the same in Go, for controller-gen."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from kubewright.apis.meta.v1 import (
    Condition,
    Int32,
    Int64,
    IntOrString,
    LabelSelector,
    Quantity,
    RawExtension,
    Time,
)
from kubewright.markers import (
    Default,
    EmbeddedResource,
    Example,
    Format,
    Immutable,
    ListMapKey,
    ListType,
    MapType,
    MaxItems,
    MaxProperties,
    Minimum,
    MinItems,
    MinLength,
    MultipleOf,
    Pattern,
    Title,
    XValidation,
)
from kubewright.models import CustomResource, Model, PrintColumn, Scale, field


class WebServerSpec(Model):
    """WebServerSpec defines the desired state of WebServer"""

    replicas: Annotated[int, Minimum(0)] = 1
    """The number of replicas that the webserver should have."""
    image: Annotated[str, MinLength(1)]
    """The container image of the webserver."""


class WebServerStatus(Model):
    """WebServerStatus defines the observed state of WebServer."""

    conditions: Annotated[list[Condition], ListType("map"), ListMapKey("type")] = field(default_factory=list)
    """conditions represent the current state of the WebServer resource."""


class WebServer(CustomResource, group="my.domain", version="v1"):
    """WebServer is the Schema for the webservers API."""

    spec: WebServerSpec
    status: WebServerStatus = field(default_factory=WebServerStatus)


class Size(StrEnum):
    """Size is how big something is."""

    SMALL = "Small"
    LARGE = "Large"


class Part(Model, markers=[XValidation("self.min <= self.max", message="min is above max")]):
    """Part is one part of a Sample."""

    name: str
    min: Int32
    """The least."""
    max: Int64


class SampleSpec(Model):
    parts: Annotated[list[Part], ListType("map"), ListMapKey("name"), MinItems(1)]
    """
    Parts of it,
    one for each.

    With a second paragraph: and a "quote".
    """
    size: Size | None = None
    port: Annotated[IntOrString | None, Default("8080")] = None
    memory: Quantity | None = None
    at: Time | None = None
    selector: LabelSelector | None = None
    labels: dict[str, str] = field(default_factory=dict)
    note: str | None
    extra: RawExtension | None = None
    template: Annotated[RawExtension, EmbeddedResource()] | None = None
    data: bytes | None = None
    fixed: Annotated[int, Minimum(0, exclusive=True), MultipleOf(2), Immutable()]
    tags: Annotated[list[Annotated[str, Pattern("^[a-z]+$")]], ListType("set"), MaxItems(3)] = field(
        default_factory=list
    )
    limits: Annotated[dict[str, Quantity], MaxProperties(3), MapType("atomic")] = field(default_factory=dict)
    mail: Annotated[str | None, Format("email"), Title("A title"), Example("hello")] = None


class Sample(
    CustomResource,
    group="my.domain",
    version="v1",
    short_names=["smp", "sm"],
    categories=["all"],
    namespaced=False,
    columns=[
        PrintColumn("Size", ".spec.size", description="How big"),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
        PrintColumn("Mail", ".spec.mail", priority=1),
    ],
    scale=Scale(".spec.fixed", ".status.conditions", ".status.conditions"),
    deprecated="use v2",
    selectable_fields=[".spec.size"],
):
    """Sample has one of everything."""

    spec: SampleSpec | None = None
    status: WebServerStatus = field(default_factory=WebServerStatus)
