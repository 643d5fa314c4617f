"""The API: the kind WebServer in version v1."""

from typing import Annotated

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m


class WebServerSpec(Model):
    """The desired state of a WebServer."""

    foo: str | None = None
    """An example field. Replace it with your own."""


class WebServerStatus(Model):
    """The observed state of a WebServer."""

    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready reports whether the cluster matches the spec, and why not."""


class WebServer(
    CustomResource,
    group="my.domain",
    version="v1",
    columns=[
        PrintColumn("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
    ],
):
    """WebServer is the Schema for the webservers API."""

    spec: WebServerSpec
    status: WebServerStatus = field(default_factory=WebServerStatus)
