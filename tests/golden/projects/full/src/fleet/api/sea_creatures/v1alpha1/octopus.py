"""The API: what a Octopus is, in version v1alpha1."""

from typing import Annotated

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m


class OctopusSpec(Model):
    """What a Octopus should be."""

    foo: str | None = None
    """An example field; put your own in its place."""


class OctopusStatus(Model):
    """What a Octopus is."""

    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready says whether it is as its spec asks for, and why not."""


class Octopus(
    CustomResource,
    group="sea-creatures.example.com",
    version="v1alpha1",
    plural="octopodes",
    columns=[
        PrintColumn("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
    ],
):
    """Octopus is the Schema for the octopodes API."""

    spec: OctopusSpec
    status: OctopusStatus = field(default_factory=OctopusStatus)
