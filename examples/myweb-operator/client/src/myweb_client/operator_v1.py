# Made by `kubewright generate models`, which writes it anew: change nothing here.
# ruff: noqa: E501, RUF100 - descriptions are their authors', line by line
"""The kinds of operator.k8s-summit.org/v1, from their CustomResourceDefinitions."""

from __future__ import annotations

from typing import Annotated

from kubewright.models import CustomResource, Model, PrintColumn, field
from kubewright.markers import (
    ListMapKey,
    ListType,
    Maximum,
    MaxLength,
    Minimum,
    Pattern,
    XValidation,
)
from kubewright.apis.meta.v1 import Condition, Int64


class MyWebSpec(Model):
    """What a MyWeb should be."""

    image: Annotated[str, Pattern("^\\S+$")]
    """The container image of the web server, which serves /usr/share/nginx/html on port 80"""
    node_port_number: Annotated[int, Minimum(30000), Maximum(32767)]
    """The port of every node on which the page is reached"""
    page_content_html: Annotated[str, MaxLength(262144)]
    """The page, as HTML. In any script it fits into a ConfigMap, which holds 1 MiB"""


class MyWebStatus(Model):
    """What a MyWeb is."""

    completed: bool = False
    """Whether the page of the spec, and no other, is served on the port of the spec"""
    observed_generation: Int64 = 0
    """The generation of the spec that the rest of the status is about"""
    conditions: Annotated[
        list[Condition],
        ListType("map"),
        ListMapKey("type"),
    ] = field(default_factory=list[Condition])
    """Ready says the same as completed, and why not"""


class MyWeb(
    CustomResource,
    group="operator.k8s-summit.org",
    version="v1",
    short_names=["web"],
    categories=["all"],
    columns=[
        PrintColumn("Image", ".spec.image"),
        PrintColumn("Node Port", ".spec.nodePortNumber", type="integer"),
        PrintColumn("Completed", ".status.completed", type="boolean"),
        PrintColumn(
            "Reason",
            '.status.conditions[?(@.type=="Ready")].reason',
            priority=1,
        ),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
    ],
    markers=[
        XValidation(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",
            message="metadata.name is the Service's too: at most 63 of a-z, 0-9 and -, a letter first, no - at the end",
        ),
    ],
):
    """MyWeb is a web page that is served on a port of every node"""

    spec: MyWebSpec
    status: MyWebStatus = field(default_factory=MyWebStatus)
