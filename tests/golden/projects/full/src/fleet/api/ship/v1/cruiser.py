"""The API: what a Cruiser is, in version v1."""

from typing import Annotated

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m


class CruiserSpec(Model):
    """What a Cruiser should be."""

    foo: str | None = None
    """An example field; put your own in its place."""


class CruiserStatus(Model):
    """What a Cruiser is."""

    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready says whether it is as its spec asks for, and why not."""


class Cruiser(
    CustomResource,
    group="ship.example.com",
    version="v1",
    namespaced=False,
    columns=[
        PrintColumn("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
    ],
):
    """Cruiser is the Schema for the cruisers API."""

    spec: CruiserSpec
    status: CruiserStatus = field(default_factory=CruiserStatus)
