"""The API: the kind Octopus in version v1alpha1."""

from typing import Annotated

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m


class OctopusSpec(Model):
    """The desired state of a Octopus."""

    foo: str | None = None
    """An example field. Replace it with your own."""


class OctopusStatus(Model):
    """The observed state of a Octopus."""

    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready reports whether the cluster matches the spec, and why not."""


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
