"""The WebServer API, version v1alpha1."""

from typing import Annotated

from kubewright import CustomResource, Model, PrintColumn, field
from kubewright import markers as m


class WebServerSpec(Model):
    """The desired state of a WebServer."""

    size: Annotated[int, m.Minimum(0), m.Maximum(1000)] = 1
    """The number of Pods"""
    image: Annotated[str, m.MinLength(1), m.Pattern(r"^\S*$")]
    """The container image"""
    memory_mb: Annotated[int, m.Minimum(1), m.Maximum(1_000_000)] = 64
    """The memory of each Pod, in MB"""
    port: Annotated[int, m.Minimum(1), m.Maximum(65535)] = 80
    """The port of the Service"""
    public: bool = False
    """Whether every node opens a port for the Service"""


class WebServerStatus(Model):
    """The observed state of a WebServer."""

    available: int = 0
    """The number of Pods that are available"""
    ready: bool = False
    """Whether all Pods match the spec and are available"""


class WebServer(
    CustomResource,
    group="farm.my.domain",
    version="v1alpha1",
    storage=False,
    deprecated="farm.my.domain/v1alpha1 WebServer is deprecated; use farm.my.domain/v1",
    columns=[
        PrintColumn("Size", ".spec.size", type="integer"),
        PrintColumn("Image", ".spec.image"),
        PrintColumn("MB", ".spec.memoryMb", type="integer"),
        PrintColumn("Ready", ".status.ready", type="boolean"),
    ],
):
    """WebServer is the Schema for the webservers API."""

    spec: WebServerSpec
    status: WebServerStatus = field(default_factory=WebServerStatus)
