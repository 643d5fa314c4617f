"""The API: the kind Frigate in version v1."""

from typing import Annotated

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m


class FrigateSpec(Model):
    """The desired state of a Frigate."""

    foo: str | None = None
    """An example field. Replace it with your own."""


class FrigateStatus(Model):
    """The observed state of a Frigate."""

    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready reports whether the cluster matches the spec, and why not."""


class Frigate(
    CustomResource,
    group="example.com",
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
