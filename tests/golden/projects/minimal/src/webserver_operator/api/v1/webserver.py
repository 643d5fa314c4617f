"""The API: what a WebServer is, in version v1."""

from typing import Annotated

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m


class WebServerSpec(Model):
    """What a WebServer should be."""

    foo: str | None = None
    """An example field; put your own in its place."""


class WebServerStatus(Model):
    """What a WebServer is."""

    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready says whether it is as its spec asks for, and why not."""


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
