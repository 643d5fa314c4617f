"""The patch of a defaulter has what its function changed, and nothing else."""

# ruff: noqa: RUF012 - models copy the lists that are their defaults

from __future__ import annotations

from typing import Any

import pytest

from kubewright import CustomResource, Forbidden, Model
from kubewright.apis.core.v1 import Container, Pod
from kubewright.apis.meta.v1 import Quantity, Time
from kubewright.client import Unstructured
from kubewright.machinery.patch import json_patch
from kubewright.models import UNSET, APIResource, UnsetType, field
from kubewright.webhooks import AdmissionContext, Defaulter, defaulter

from .served import Change, Served, WebServer, asked, operations, webserver


def changing(change: Change) -> Defaulter[WebServer]:
    @defaulter(WebServer)
    def change_it(ctx: AdmissionContext[WebServer]) -> None:
        change(ctx.object)

    return change_it


def setting(**values: object) -> Defaulter[WebServer]:
    def change(obj: WebServer) -> None:
        for name, value in values.items():
            setattr(obj.spec, name, value)

    return changing(change)


async def test_a_changed_field_is_patched() -> None:
    response = await Served(setting(replicas=3)).review(asked(webserver(replicas=1)))
    assert response["allowed"]
    assert operations(response) == [{"op": "replace", "path": "/spec/replicas", "value": 3}]


async def test_an_async_function_is_awaited() -> None:
    @defaulter(WebServer)
    async def set_replicas(ctx: AdmissionContext[WebServer]) -> None:
        ctx.object.spec.replicas = 5

    assert (await Served(set_replicas).patched(webserver()))["spec"] == {"replicas": 5}


async def test_an_object_that_is_not_changed_gets_no_patch() -> None:
    response = await Served(setting()).review(asked(webserver()))
    assert response == {"uid": asked()["uid"], "allowed": True}


async def test_defaults_of_the_class_are_not_in_the_patch() -> None:
    response = await Served(setting(image="nginx")).review(asked(webserver()))
    assert operations(response) == [{"op": "add", "path": "/spec/image", "value": "nginx"}]


async def test_fields_that_the_class_does_not_know_stay() -> None:
    sent = webserver(replicas=1, unknown={"a": 1}, ports=[80])
    sent["extra"] = [1]
    found = await Served(setting(replicas=2, ports=[80, 443])).patched(sent)
    assert found == {**sent, "spec": {"replicas": 2, "unknown": {"a": 1}, "ports": [80, 443]}}


async def test_nulls_stay() -> None:
    sent = webserver(replicas=1, image=None, ports=None)
    assert (await Served(setting(replicas=2)).patched(sent))["spec"] == {"replicas": 2, "image": None, "ports": None}


async def test_a_field_set_to_its_absent_value_is_removed() -> None:
    response = await Served(setting(image=None)).review(asked(webserver(image="nginx")))
    assert operations(response) == [{"op": "remove", "path": "/spec/image"}]


async def test_a_field_that_the_class_sets_back_to_its_default_is_patched() -> None:
    found = await Served(setting(replicas=1)).patched(webserver(replicas=4))
    assert found["spec"] == {"replicas": 1}


async def test_names_with_slashes_and_tildes_are_patched() -> None:
    def label(obj: WebServer) -> None:
        obj.metadata.labels = {**obj.metadata.labels, "a/b~c": "1"}

    sent = webserver()
    sent["metadata"]["labels"] = {"x": "y"}
    response = await Served(changing(label)).review(asked(sent))
    assert operations(response) == [{"op": "add", "path": "/metadata/labels/a~1b~0c", "value": "1"}]


async def test_labels_of_an_object_without_labels_are_added() -> None:
    found = await Served(changing(lambda obj: obj.metadata.labels.update(team="a"))).patched(webserver())
    assert found["metadata"] == {"name": "web", "namespace": "shop", "labels": {"team": "a"}}


async def test_an_object_that_is_replaced_is_compared_with_the_one_that_came() -> None:
    @defaulter(WebServer)
    def replace(ctx: AdmissionContext[WebServer]) -> None:
        ctx.object = WebServer(metadata=ctx.object.metadata, spec=type(ctx.object.spec)(replicas=9))

    found = await Served(replace).patched(webserver(replicas=1, image="nginx", unknown=True))
    assert found["spec"] == {"replicas": 9, "unknown": True}


class PartSpec(Model):
    name: str
    size: Quantity = "1"
    seen: Time | None = None
    note: str | None = None


class InnerSpec(Model):
    depth: int = 1
    width: int = 2


class MachineSpec(Model):
    parts: list[PartSpec] = []
    inner: InnerSpec = field(default_factory=InnerSpec)
    mode: str | UnsetType | None = UNSET


class Machine(CustomResource, group="my.domain", version="v1"):
    spec: MachineSpec = field(default_factory=MachineSpec)


def machine(**spec: object) -> dict[str, Any]:
    return {"apiVersion": "my.domain/v1", "kind": "Machine", "metadata": {"name": "m"}, "spec": spec}


async def patch_of_machine(change: Change, sent: dict[str, Any]) -> list[dict[str, Any]]:
    @defaulter(Machine)
    def change_it(ctx: AdmissionContext[Machine]) -> None:
        change(ctx.object.spec)

    kind = {"group": "my.domain", "version": "v1", "kind": "Machine"}
    return operations(await Served(change_it).review(asked(sent, kind=kind)))


async def test_quantities_and_times_keep_the_form_in_which_they_were_sent() -> None:
    def note(spec: MachineSpec) -> None:
        spec.parts[0].note = "b"

    sent = machine(parts=[{"name": "a", "size": 2, "seen": "2024-01-01T01:00:00+01:00"}])
    assert await patch_of_machine(note, sent) == [{"op": "add", "path": "/spec/parts/0/note", "value": "b"}]


async def test_items_of_a_list_keep_unknown_fields_when_an_item_is_put_before_them() -> None:
    def insert(spec: MachineSpec) -> None:
        spec.parts.insert(0, PartSpec(name="first"))

    sent = machine(parts=[{"name": "a", "unknown": 1}])
    patch = await patch_of_machine(insert, sent)
    assert patch[0]["path"].startswith("/spec/parts/")
    assert json_patch(sent, patch)["spec"]["parts"] == [{"name": "first", "size": "1"}, {"name": "a", "unknown": 1}]


async def test_only_the_changed_field_of_an_absent_structure_is_added() -> None:
    def deepen(spec: MachineSpec) -> None:
        spec.inner.depth = 7

    assert await patch_of_machine(deepen, machine()) == [{"op": "add", "path": "/spec/inner", "value": {"depth": 7}}]


async def test_a_field_that_may_be_unset_is_set() -> None:
    def set_mode(spec: MachineSpec) -> None:
        spec.mode = "fast"

    assert await patch_of_machine(set_mode, machine()) == [{"op": "add", "path": "/spec/mode", "value": "fast"}]


POD = {"group": "", "version": "v1", "kind": "Pod"}


def pod() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "creationTimestamp": None},
        "spec": {"containers": [{"name": "app", "image": "nginx", "resources": {"limits": {"cpu": 1}}}], "future": 1},
    }


async def test_a_built_in_kind_is_changed() -> None:
    @defaulter(Pod)
    def add_sidecar(ctx: AdmissionContext[Pod]) -> None:
        assert ctx.object.spec is not None
        ctx.object.spec.containers.append(Container(name="proxy", image="envoy"))

    response = await Served(add_sidecar).review(asked(pod(), kind=POD))
    assert operations(response) == [
        {"op": "add", "path": "/spec/containers/1", "value": {"name": "proxy", "image": "envoy"}}
    ]


async def test_a_kind_without_a_class_is_changed() -> None:
    @defaulter(Unstructured.of(APIResource("", "v1", "Pod", "pods")))
    def set_node(ctx: AdmissionContext[Unstructured]) -> None:
        ctx.object["spec"]["nodeName"] = "n1"
        ctx.object.metadata.labels["a"] = "b"

    response = await Served(set_node).review(asked(pod(), kind=POD))
    assert sorted(each["path"] for each in operations(response)) == ["/metadata/labels", "/spec/nodeName"]


async def test_a_defaulter_may_deny() -> None:
    @defaulter(WebServer)
    def deny(ctx: AdmissionContext[WebServer]) -> None:
        ctx.object.spec.replicas = 3
        raise Forbidden("not today")

    response = await Served(deny).review(asked(webserver()))
    assert not response["allowed"]
    assert response["status"] == {
        "metadata": {}, "status": "Failure", "message": "not today", "reason": "Forbidden", "code": 403
    }  # fmt: skip
    assert "patch" not in response


async def test_a_delete_gets_no_patch() -> None:
    @defaulter(WebServer, operations=["DELETE"])
    def change(ctx: AdmissionContext[WebServer]) -> None:
        ctx.object.spec.replicas = 3

    response = await Served(change).review(asked(None, webserver(), operation="DELETE"))
    assert response == {"uid": asked()["uid"], "allowed": True}


async def test_a_returned_object_is_reported_as_a_mistake(caplog: pytest.LogCaptureFixture) -> None:
    @defaulter(WebServer)  # type: ignore[arg-type] # the mistake
    def wrong(ctx: AdmissionContext[WebServer]) -> WebServer:
        return ctx.object

    response = await Served(wrong).review(asked(webserver()))
    assert response["status"]["code"] == 500
    assert "must change or assign ctx.object, and return None" in response["status"]["message"]
