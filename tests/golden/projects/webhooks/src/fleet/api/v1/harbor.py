"""The API: the kind Harbor in version v1."""

from typing import Annotated

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m


class HarborSpec(Model):
    """The desired state of a Harbor."""

    foo: str | None = None
    """An example field. Replace it with your own."""


class HarborStatus(Model):
    """The observed state of a Harbor."""

    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready reports whether the cluster matches the spec, and why not."""


class Harbor(
    CustomResource,
    group="example.com",
    version="v1",
    namespaced=False,
    columns=[
        PrintColumn("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
    ],
):
    """Harbor is the Schema for the harbors API."""

    spec: HarborSpec
    status: HarborStatus = field(default_factory=HarborStatus)
