"""The scale of objects: applied, patched and shown as a Table."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from conformance.rawapi import API, until

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
SPEC: dict[str, Any] = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}


def scale(replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "d"},
        "spec": {"replicas": replicas},
    }


async def create(api: API, ns: str) -> str:
    """Create an object without replicas, and return its path."""
    path = ns.replace("/api/v1", "/apis/apps/v1") + "/replicasets"
    await api.post(f"{path}?fieldManager=creator", {"metadata": {"name": "d"}, "spec": SPEC})
    return f"{path}/d"


async def test_an_applied_scale_owns_the_replicas(api: API, ns: str) -> None:
    path = await create(api, ns)
    answer = (await api.patch(f"{path}/scale?fieldManager=scaler", scale(1), "apply")).expect(409)
    why = 'Apply failed with 1 conflict: conflict with "creator" using autoscaling/v1: .spec.replicas'
    assert answer.message == why
    answer = (await api.patch(f"{path}/scale?fieldManager=scaler&force=true", scale(1), "apply")).expect(200)
    assert answer.json["kind"] == "Scale"
    assert answer.json["spec"] == {"replicas": 1}
    obj = (await api.get(path)).expect(200).json
    assert obj["spec"]["replicas"] == 1
    owners = {each["manager"]: each for each in obj["metadata"]["managedFields"] if each["manager"] != "kube-apiserver"}
    assert owners["scaler"]["subresource"] == "scale"
    assert owners["scaler"]["apiVersion"] == "apps/v1"
    assert owners["scaler"]["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in owners["creator"]["fieldsV1"]["f:spec"]


async def test_only_a_scale_can_be_applied_to_the_scale(api: API, ns: str) -> None:
    path = await create(api, ns)
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "d"}, "spec": {"replicas": 1}}
    answer = (await api.patch(f"{path}/scale?fieldManager=a", body, "apply")).expect(400)
    assert answer.message == "invalid object type: apps/v1, Kind=ReplicaSet"
    missing = path.removesuffix("d") + "x"
    other = {**scale(1), "metadata": {"name": "x"}}
    (await api.patch(f"{missing}/scale?fieldManager=a", other, "apply")).expect(404)
    answer = (await api.patch(f"{path}/scale?fieldManager=a&force=true", scale(-1), "apply")).expect(422)
    assert answer.causes[0][1:] == ("spec.replicas", "Invalid value: -1: must be greater than or equal to 0")


async def test_a_scale_is_decoded_as_one(api: API, ns: str) -> None:
    path = await create(api, ns)
    body = {**scale(0), "spec": {"replicas": 0, "bogus": 1}}
    warned = (await api.put(f"{path}/scale", body)).expect(200)
    assert warned.headers["warning"] == '299 - "unknown field \\"spec.bogus\\""'
    strict = (await api.put(f"{path}/scale?fieldValidation=Strict", body)).expect(400)
    assert strict.message.endswith('strict decoding error: unknown field "spec.bogus"')
    for kind in ("merge", "strategic"):
        (await api.patch(f"{path}/scale", {"spec": {"replicas": "x"}}, kind)).expect(422)


@pytest.mark.parametrize("form", ["Table", "PartialObjectMetadata"])
async def test_a_scale_is_shown_in_other_forms(api: API, ns: str, form: str) -> None:
    path = await create(api, ns)
    answer = (await api.get(f"{path}/scale", accept=f"application/json;as={form};g=meta.k8s.io;v=v1")).expect(200)
    assert answer.json["kind"] == form
    if form == "Table":
        assert [each["name"] for each in answer.json["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
        assert answer.json["rows"][0]["cells"][:3] == ["d", 0, 0]


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATHS = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}
WRONG_SPECS = [
    ("x", "x is of the type string, expected map[string]interface{}"),
    ([], "[] is of the type []interface {}, expected map[string]interface{}"),
    (5, "5 is of the type int64, expected map[string]interface{}"),
    ({"replicas": "x"}, "x is of the type string, expected int64"),
    ({"replicas": {}}, "map[] is of the type map[string]interface {}, expected int64"),
    ({"replicas": None}, "<nil> is of the type <nil>, expected int64"),
]


@pytest_asyncio.fixture
async def group(api: API) -> AsyncIterator[str]:
    """The group of a kind `Thing` that allows all fields and has no subresources yet."""
    group = f"g{secrets.token_hex(4)}.example.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    (await api.post(CRDS, {"metadata": {"name": f"things.{group}"}, "spec": spec})).expect(201)

    async def served() -> bool:
        return (await api.get(f"/apis/{group}/v1/things")).status == 200

    await until(served)
    yield group
    await api.delete(f"{CRDS}/things.{group}")


async def test_a_scale_added_to_objects_that_it_does_not_fit_says_why(api: API, ns: str, group: str) -> None:
    path = f"/apis/{group}/v1/namespaces/{ns.rpartition('/')[2]}/things"
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing"}
    for index, (spec, _) in enumerate([*WRONG_SPECS, ({"replicas": 1}, "")]):
        (await api.post(path, thing | {"metadata": {"name": f"t{index}"}, "spec": spec})).expect(201)
    add = [{"op": "add", "path": "/spec/versions/0/subresources", "value": {"scale": PATHS}}]
    (await api.patch(f"{CRDS}/things.{group}", add, "json")).expect(200)

    async def has_scale() -> bool:
        return (await api.get(f"{path}/t{len(WRONG_SPECS)}/scale")).status == 200

    await until(has_scale)
    for index, (spec, why) in enumerate(WRONG_SPECS):
        message = f".spec.replicas accessor error: {why}"
        one = f"{path}/t{index}/scale"
        read = await api.get(one)
        patched = await api.patch(one, {"spec": {"replicas": 3}})
        replaced = await api.put(one, scale(3) | {"metadata": {"name": f"t{index}"}})
        assert [each.message for each in (read, patched, replaced)] == [message] * 3
        created = await api.post(f"{path}?dryRun=All", thing | {"metadata": {"name": "new"}, "spec": spec})
        [cause] = created.expect(422).causes
        assert cause[1:] == (".spec.replicas", f"Invalid value: 0: {message}")


async def test_a_selector_of_a_wrong_type_is_rejected(api: API, ns: str, group: str) -> None:
    path = f"/apis/{group}/v1/namespaces/{ns.rpartition('/')[2]}/things"
    add = [{"op": "add", "path": "/spec/versions/0/subresources", "value": {"scale": PATHS}}]
    (await api.patch(f"{CRDS}/things.{group}", add, "json")).expect(200)
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "a"}, "status": {"selector": 5}}

    async def rejected() -> bool:
        return (await api.post(f"{path}?dryRun=All", thing)).status == 422

    await until(rejected)
    why = 'Invalid value: "": .status.selector accessor error: 5 is of the type int64, expected string'
    assert (await api.post(path, thing)).causes == [("FieldValueInvalid", ".status.selector", why)]
