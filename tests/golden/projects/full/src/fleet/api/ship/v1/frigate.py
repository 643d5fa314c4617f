"""The API: what a Frigate is, in version v1."""

from typing import Annotated

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m


class FrigateSpec(Model):
    """What a Frigate should be."""

    foo: str | None = None
    """An example field; put your own in its place."""


class FrigateStatus(Model):
    """What a Frigate is."""

    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready says whether it is as its spec asks for, and why not."""


class Frigate(
    CustomResource,
    group="ship.example.com",
    version="v1",
    storage=False,
    columns=[
        PrintColumn("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
    ],
):
    """Frigate is the Schema for the frigates API."""

    spec: FrigateSpec
    status: FrigateStatus = field(default_factory=FrigateStatus)
