"""Conversion between versions, as an API server asks for it."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest

from kubewright import ConfigError, CustomResource, Manager, Model, field
from kubewright.apis.meta.v1 import ObjectMeta, Quantity, Time
from kubewright.webhooks import Conversion, ConversionError, Spoke

from .served import Served
from .versions import (
    V1,
    V1Alpha1,
    V1Beta1,
    V1Port,
    V1Spec,
    conversion,
    from_v1alpha1,
    from_v1beta1,
    to_v1alpha1,
    to_v1beta1,
)

GROUP = "shop.example.com"
DATA = f"{GROUP}/conversion-data"
METADATA = {
    "name": "web",
    "namespace": "shop",
    "uid": "1",
    "labels": {"a": "b"},
    "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    "future": {"kept": True},
}


def web(version: str, name: str = "web", **spec: object) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Web",
        "metadata": {**METADATA, "name": name},
        "spec": {"image": "nginx", **spec},
    }


async def response(
    *objects: dict[str, Any], to: str = "v1", served: Served | None = None, review: str = "v1"
) -> dict[str, Any]:
    request = {"uid": "705", "desiredAPIVersion": f"{GROUP}/{to}", "objects": objects}
    body = {"kind": "ConversionReview", "apiVersion": f"apiextensions.k8s.io/{review}", "request": request}
    answer = await (served or Served(conversion())).post(json.dumps(body).encode(), "/convert?timeout=30s")
    assert answer.status == 200, answer.body
    assert isinstance(answer.body, bytes)
    found = json.loads(answer.body)
    assert (found["kind"], found["apiVersion"]) == (body["kind"], body["apiVersion"])
    assert found["response"]["uid"] == "705"
    result: dict[str, Any] = found["response"]
    return result


async def converted(*objects: dict[str, Any], to: str = "v1") -> list[dict[str, Any]]:
    found = await response(*objects, to=to)
    assert found["result"] == {"status": "Success"}
    objects_: list[dict[str, Any]] = found["convertedObjects"]
    return objects_


async def test_a_spoke_is_converted_to_the_hub() -> None:
    (found,) = await converted(web("v1beta1", size=3, ports=[{"name": "http", "number": 80}]))
    assert found == {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Web",
        "metadata": METADATA,
        "spec": {
            "image": "nginx",
            "replicas": 3,
            "ports": [{"name": "http", "number": 80, "protocol": "TCP"}],
        },
    }


async def test_a_spoke_is_converted_to_another_through_the_hub() -> None:
    (found,) = await converted(web("v1alpha1", numbers=[80]), to="v1beta1")
    assert found["spec"] == {"size": 1, "image": "nginx", "ports": [{"name": "p80", "number": 80}]}


async def test_all_objects_of_a_list_are_converted_in_order() -> None:
    names = [f"web-{number}" for number in range(40)]
    found = await converted(*(web("v1beta1", name) for name in names))
    assert [each["metadata"]["name"] for each in found] == names


async def test_v1beta1_reviews_are_answered_as_v1beta1() -> None:
    assert (await response(web("v1beta1"), review="v1beta1"))["result"]["status"] == "Success"


@pytest.mark.parametrize(
    ("failing", "to", "expected"),
    [
        (web("v1beta1", "bad", size="x"), "v1", "spec.size: expected int, got str"),
        (web("v1beta1", "bad"), "v7", "there is no version v7; known are v1, v1beta1, v1alpha1"),
        (web("v7", "bad"), "v1", f"Web of {GROUP}/v7 is not a version of Web"),
        (web("v1", "bad"), "v1", "the object has the version v1 already"),
        ({**web("v1beta1", "bad"), "kind": "Other"}, "v1", "no Conversion of this manager has these versions"),
    ],
)
async def test_one_object_that_cannot_be_converted_fails_the_request(
    failing: dict[str, Any], to: str, expected: str
) -> None:
    found = await response(web("v1beta1"), failing, to=to) if to == "v1" else await response(failing, to=to)
    assert found["convertedObjects"] == []
    assert found["result"]["status"] == "Failure"
    assert f'{failing["kind"]} "shop/bad" from {failing["apiVersion"]} to {GROUP}/{to}: ' in found["result"]["message"]
    assert expected in found["result"]["message"]


async def test_an_exception_of_a_function_fails_the_request(caplog: pytest.LogCaptureFixture) -> None:
    def broken(old: V1Beta1) -> V1:
        raise KeyError("size")

    served = Served(Conversion(V1, Spoke(V1Beta1, convert_to=broken, convert_from=to_v1beta1)))
    found = await response(web("v1beta1"), served=served)
    assert found["result"]["message"] == (
        f"Web \"shop/web\" from {GROUP}/v1beta1 to {GROUP}/v1: panic: KeyError: 'size' [recovered]"
    )
    (line,) = [each for each in caplog.records if each.msg == "Conversion failed"]
    assert line.exc_info is not None
    assert served.metrics.webhooks["/convert"].panics == 1


async def test_a_function_that_returns_another_version_is_a_mistake() -> None:
    def same(old: V1Beta1) -> V1Beta1:
        return old

    made: Any = Spoke(V1Beta1, convert_to=same, convert_from=to_v1beta1)  # type: ignore[arg-type] # the mistake
    found = await response(web("v1beta1"), served=Served(Conversion(V1, made)))
    assert "returned V1Beta1, not" in found["result"]["message"]


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"kind": "AdmissionReview"}', b'{"request":{"objects":' + b"[" * 99_999]
)
async def test_a_body_without_a_review_is_a_bad_request(body: bytes) -> None:
    assert (await Served(conversion()).post(body)).status == 400


# ---- metadata


async def test_a_function_may_change_labels_and_annotations() -> None:
    def label(old: V1Beta1) -> V1:
        made = from_v1beta1(old)
        made.metadata = old.metadata
        made.metadata.labels = {"size": str(old.spec.size)}
        made.metadata.annotations = {"seen": "yes"}
        made.metadata.name = "another"
        return made

    served = Served(Conversion(V1, Spoke(V1Beta1, convert_to=label, convert_from=to_v1beta1)))
    (found,) = (await response(web("v1beta1", size=2), served=served))["convertedObjects"]
    assert found["metadata"] == {**METADATA, "labels": {"size": "2"}, "annotations": {"seen": "yes"}}


# ---- what a version cannot hold


def hub() -> V1:
    ports = [V1Port(name="dns", number=53, protocol="UDP"), V1Port(name="http", number=80)]
    spec = V1Spec(replicas=2, image="nginx", ports=ports, tags=["a", "b"], labels={"x": "y"})
    return V1(metadata=ObjectMeta(name="web", namespace="shop"), spec=spec)


@pytest.mark.parametrize("version", [V1Beta1, V1Alpha1])
def test_what_a_spoke_lacks_comes_back(version: type[CustomResource]) -> None:
    made = conversion()
    assert made.convert(made.convert(hub(), version), V1) == hub()


def test_what_the_hub_lacks_comes_back() -> None:
    made = conversion()
    start = V1Alpha1(metadata=ObjectMeta(name="web"), spec=to_v1alpha1(hub()).spec)
    start.spec.note = "kept"
    assert made.convert(made.convert(start, V1), V1Alpha1) == start
    assert made.convert(made.convert(start, V1Beta1), V1Alpha1) == start


def test_what_is_lost_nowhere_is_not_stored() -> None:
    made = conversion()
    plain = V1(metadata=ObjectMeta(name="web"), spec=V1Spec(image="nginx"))
    assert made.convert(plain, V1Beta1).metadata.annotations == {}


def test_a_change_in_the_spoke_wins() -> None:
    made = conversion()
    old = made.convert(hub(), V1Beta1)
    assert DATA in old.metadata.annotations
    old.spec.size = 7
    old.spec.ports[1].number = 8080
    del old.spec.ports[0]
    new = made.convert(old, V1)
    assert (new.spec.replicas, new.spec.tags, new.spec.labels) == (7, ["a", "b"], {"x": "y"})
    assert new.spec.ports == [V1Port(name="http", number=8080)]


def test_items_with_a_name_keep_what_the_spoke_lacks_when_they_move() -> None:
    made = conversion()
    old = made.convert(hub(), V1Beta1)
    old.spec.ports.reverse()
    old.spec.ports[1].number = 5353
    new = made.convert(old, V1)
    assert new.spec.ports == [V1Port(name="http", number=80), V1Port(name="dns", number=5353, protocol="UDP")]


def test_a_change_of_a_list_without_names_keeps_the_items_that_did_not_change() -> None:
    made = conversion()
    old = made.convert(hub(), V1Alpha1)
    old.spec.numbers.append(443)
    new = made.convert(old, V1)
    assert [each.number for each in new.spec.ports] == [53, 80, 443]
    assert new.spec.replicas == 2


def test_an_annotation_that_a_client_broke_is_ignored() -> None:
    made = conversion()
    for text in ("nonsense", "[]", '{"v1": 3}', '{"v1": {"fields": {"spec": {"items": [[1]]}}}}'):
        old = made.convert(hub(), V1Beta1)
        old.metadata.annotations[DATA] = text
        assert made.convert(old, V1).spec.replicas == 2


def test_other_annotations_stay() -> None:
    start = hub()
    start.metadata.annotations["team"] = "a"
    made = conversion()
    there = made.convert(start, V1Beta1)
    assert set(there.metadata.annotations) == {"team", DATA}
    assert made.convert(there, V1).metadata.annotations == {"team": "a"}


class Port(Model):
    number: int
    protocol: Literal["TCP", "UDP"]


class FullSpec(Model):
    image: str
    memory: Quantity
    since: Time
    sizes: list[int]
    port: Port
    limit: int | None
    ports: list[Port] = field(default_factory=list)


class Full(CustomResource, group=GROUP, version="v1"):
    spec: FullSpec


class OldFull(CustomResource, group=GROUP, version="v1alpha1", kind="Full", storage=False):
    spec: FullSpec


@pytest.mark.parametrize("document", [{}, {"spec": {"image": "nginx", "ports": [{"number": 1}]}}])
def test_fields_that_an_api_server_leaves_out_have_zero_values(document: dict[str, Any]) -> None:
    both = Conversion(
        Full,
        Spoke(OldFull, convert_to=lambda old: Full(spec=old.spec), convert_from=lambda new: OldFull(spec=new.spec)),
    )
    partial = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "Full", "metadata": {"name": "a"}, **document}
    found = both.convert_document(json.dumps(partial).encode(), "v1")["spec"]
    zero = {"number": 0, "protocol": "TCP"}
    assert found.pop("ports", []) == ([{**zero, "number": 1}] if document else [])
    assert found == {
        "image": "nginx" if document else "",
        "memory": "0",
        "since": "0001-01-01T00:00:00Z",
        "sizes": [],
        "port": zero,
        "limit": None,
    }


class Since(Model):
    since: str = ""
    reason: str = ""


class Light(CustomResource, group=GROUP, version="v1"):
    spec: Since


class OldLight(CustomResource, group=GROUP, version="v1alpha1", kind="Light", storage=False):
    spec: Model


def test_a_field_that_a_function_takes_from_the_metadata_keeps_its_value() -> None:
    def to_v1(old: OldLight) -> Light:
        return Light(spec=Since(since=old.metadata.name, reason=old.metadata.labels.get("reason", "")))

    both = Conversion(Light, Spoke(OldLight, convert_to=to_v1, convert_from=lambda _: OldLight(spec=Model())))
    light = Light(metadata=ObjectMeta(name="a", labels={"reason": "x"}), spec=Since(since="noon", reason="y"))
    assert both.convert(both.convert(light, OldLight), Light).spec == light.spec


def test_without_lossless_nothing_is_stored() -> None:
    made = conversion(lossless=False)
    old = made.convert(hub(), V1Beta1)
    assert old.metadata.annotations == {}
    assert made.convert(old, V1).spec.tags == []


def test_more_than_an_annotation_holds_is_an_error() -> None:
    start = hub()
    start.spec.tags = ["x" * 1000] * 300
    with pytest.raises(ConversionError, match=r"version v1beta1 lacks \d+ bytes of version v1, more than an"):
        conversion().convert(start, V1Beta1)


# ---- the declaration


class Spec(Model):
    size: int = 1


class Other(CustomResource, group=GROUP, version="v1beta2", kind="Other"):
    spec: Spec


def test_versions_of_different_kinds_are_refused() -> None:
    made: Any = Spoke(Other, convert_to=lambda old: V1(spec=V1Spec(image="")), convert_from=lambda new: Other())
    with pytest.raises(ConfigError, match=r"V1 has kind 'Web', but .*Other has 'Other'"):
        Conversion(V1, made)


def test_a_version_that_is_named_twice_is_refused() -> None:
    spoke = Spoke(V1Beta1, convert_to=from_v1beta1, convert_from=to_v1beta1)
    with pytest.raises(ConfigError, match="version v1beta1 is named twice"):
        Conversion(V1, spoke, spoke)


def test_a_conversion_without_spokes_is_refused() -> None:
    with pytest.raises(ConfigError, match="a kind with one version needs no conversion"):
        Conversion(V1)


def test_an_async_function_is_refused() -> None:
    async def slow(old: V1Beta1) -> V1:
        return from_v1beta1(old)

    made: Any = Spoke(V1Beta1, convert_to=slow, convert_from=to_v1beta1)  # type: ignore[arg-type] # the mistake
    with pytest.raises(ConfigError, match="slow is async, but a conversion only computes"):
        Conversion(V1, made)


def test_two_conversions_of_one_kind_are_refused() -> None:
    spoke = Spoke(V1Alpha1, convert_to=from_v1alpha1, convert_from=to_v1alpha1)
    with pytest.raises(ConfigError, match=r"two Conversions are of Web\.shop\.example\.com"):
        Manager(webhooks=[conversion(), Conversion(V1, spoke)])
