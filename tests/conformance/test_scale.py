"""The scale of objects: applied, patched and shown as a Table."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.rawapi import API

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
