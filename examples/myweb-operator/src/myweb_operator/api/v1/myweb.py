"""The API of MyWeb, version v1."""

from typing import Annotated

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.apis.meta.v1 import Int64


class MyWebSpec(Model):
    """The desired state of a MyWeb."""

    image: Annotated[str, m.Pattern(r"^\S+$")]
    """The container image of the web server, which serves /usr/share/nginx/html on port 80"""
    node_port_number: Annotated[int, m.Minimum(30000), m.Maximum(32767)]
    """The port on every node that serves the page"""
    page_content_html: Annotated[str, m.MaxLength(262144)]
    """The page, as HTML. The limit keeps it below 1 MiB, the limit of a ConfigMap, in any script"""


class MyWebStatus(Model):
    """The observed state of a MyWeb."""

    completed: bool = False
    """Whether the port of the spec serves the page of the spec and no other"""
    observed_generation: Int64 = 0
    """The generation of the spec that this status describes"""
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready has the same value as completed, with a reason"""


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
        PrintColumn("Reason", '.status.conditions[?(@.type=="Ready")].reason', priority=1),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
    ],
    markers=[
        m.XValidation(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",
            message="metadata.name is also the name of the Service: at most 63 of a-z, 0-9 and -, a letter first, no - last",
        ),
    ],
):
    """MyWeb is a web page that is served on a port of every node"""

    spec: MyWebSpec
    status: MyWebStatus = field(default_factory=MyWebStatus)
