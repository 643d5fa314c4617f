"""The WebServer API, version v1: the version that is stored, and the hub of the conversion."""

from typing import Annotated, Literal, TypeAlias

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.apis.meta.v1 import Int64, Quantity

ServiceType: TypeAlias = Literal["ClusterIP", "NodePort", "LoadBalancer"]


class ServiceSettings(Model):
    """The Service of a WebServer."""

    type: ServiceType = "ClusterIP"
    """Who reaches the Service: the cluster, the network of the nodes, or all networks"""
    port: Annotated[int, m.Minimum(1), m.Maximum(65535)] = 80
    """The port of the Service"""


class Variable(Model):
    """An environment variable."""

    name: Annotated[str, m.Pattern(r"^[A-Za-z_][A-Za-z0-9_]*$")]
    """The name of the variable"""
    value: str = ""
    """The value of the variable"""


class WebServerSpec(Model):
    """The desired state of a WebServer."""

    replicas: Annotated[int, m.Minimum(0), m.Maximum(1000)] | None = None
    """The number of Pods. By default 1, or 2 if the Service can be reached from outside of the cluster"""
    image: Annotated[str, m.MinLength(1), m.Pattern(r"^\S*$")]
    """The container image"""
    memory: Quantity = "64M"
    """The memory of each Pod"""
    service: ServiceSettings = field(default_factory=ServiceSettings)
    """The Service in front of the Pods"""
    env: Annotated[list[Variable], m.ListType("map"), m.ListMapKey("name")] = []
    """Environment variables of the container"""


class WebServerStatus(Model):
    """The observed state of a WebServer."""

    observed_generation: Int64 = 0
    """The generation of the spec that this status describes"""
    available_replicas: int = 0
    """The number of Pods that are available"""
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready is True when all Pods match the spec and are available."""


class WebServer(
    CustomResource,
    group="farm.my.domain",
    version="v1",
    columns=[
        PrintColumn("Replicas", ".spec.replicas", type="integer"),
        PrintColumn("Image", ".spec.image"),
        PrintColumn("Memory", ".spec.memory"),
        PrintColumn("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
    ],
):
    """WebServer is the Schema for the webservers API."""

    spec: WebServerSpec
    status: WebServerStatus = field(default_factory=WebServerStatus)
