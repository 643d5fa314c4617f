"""The API: the kind Cruiser in version v1."""

from typing import Annotated

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m


class CruiserSpec(Model):
    """The desired state of a Cruiser."""

    foo: str | None = None
    """An example field. Replace it with your own."""


class CruiserStatus(Model):
    """The observed state of a Cruiser."""

    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready reports whether the cluster matches the spec, and why not."""


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
