"""The objects of CONNECT requests: what a client wants of a Pod, a Node or a Service. They are never stored.

    @validator(PodExecOptions, parent=Pod, subresources=["exec"], operations=["CONNECT"])
    def no_shells(ctx: AdmissionContext[PodExecOptions]) -> None:
        if ctx.object.tty:
            raise Forbidden("no interactive shells in this cluster")

Source: k8s.io/api/core/v1.
"""

# ruff: noqa: RUF012 - each struct gets an empty list of its own

from __future__ import annotations

from kubewright.models import APIResource, Object


class PodExecOptions(Object):
    """The object of `pods/exec`."""

    __api__ = APIResource("", "v1", "PodExecOptions", "pods")

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    container: str = ""
    command: list[str] = []


class PodAttachOptions(Object):
    """The object of `pods/attach`."""

    __api__ = APIResource("", "v1", "PodAttachOptions", "pods")

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    container: str = ""


class PodPortForwardOptions(Object):
    """The object of `pods/portforward`."""

    __api__ = APIResource("", "v1", "PodPortForwardOptions", "pods")

    ports: list[int] = []


class PodProxyOptions(Object):
    """The object of `pods/proxy`."""

    __api__ = APIResource("", "v1", "PodProxyOptions", "pods")

    path: str = ""


class NodeProxyOptions(Object):
    """The object of `nodes/proxy`."""

    __api__ = APIResource("", "v1", "NodeProxyOptions", "nodes", namespaced=False)

    path: str = ""


class ServiceProxyOptions(Object):
    """The object of `services/proxy`."""

    __api__ = APIResource("", "v1", "ServiceProxyOptions", "services")

    path: str = ""
