"""The declaration of a kind, as type checkers see it."""

from __future__ import annotations

from typing import Annotated, assert_type

from kubewright import Condition, CustomResource, Model, ObjectMeta, PrintColumn, field
from kubewright import markers as m
from kubewright.apis.meta.v1 import IntOrString, Quantity
from kubewright.models import UNSET, UnsetType, codec


class WebServerSpec(Model):
    replicas: Annotated[int, m.Minimum(0)] = 1
    image: str
    port: IntOrString | None = None
    memory: Quantity = "1Gi"
    addresses: list[str] = field(default_factory=list[str], name="hostIPs")
    note: str | UnsetType | None = UNSET


class WebServerStatus(Model):
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = field(
        default_factory=list[Condition]
    )


class WebServer(
    CustomResource,
    group="my.domain",
    version="v1",
    short_names=["web"],
    columns=[PrintColumn("Image", ".spec.image")],
):
    spec: WebServerSpec
    status: WebServerStatus = field(default_factory=WebServerStatus)


web = WebServer(metadata=ObjectMeta(name="web"), spec=WebServerSpec(image="nginx", port=80))

assert_type(web.spec, WebServerSpec)
assert_type(web.spec.replicas, int)
assert_type(web.spec.port, int | str | None)
assert_type(web.spec.memory, str)
assert_type(web.spec.addresses, list[str])
assert_type(web.spec.note, str | UnsetType | None)
assert_type(web.status.conditions, list[Condition])
assert_type(web.metadata.labels, dict[str, str])
assert_type(web.kind, str)
assert_type(codec.decode(WebServer, b"{}"), WebServer)

web.spec.port = "http"
web.spec.replicas = "three"  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]

WebServerSpec(replicas=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
WebServerSpec("nginx")  # type: ignore[call-arg, arg-type]  # pyright: ignore[reportCallIssue]
WebServerSpec(image=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
WebServerSpec(image="nginx", size=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
WebServer()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
