"""CustomResourceDefinitions: names, objects and deletion, with the messages of kube-apiserver 1.36."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kubewright.testing import VirtualClock
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.server import APIServer
from unit.apiserver.harness import ADMIN, API, MERGE, TABLE

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOOS = "/apis/example.com/v1/namespaces/default/foos"


def version(name: str = "v1", *, storage: bool = True, **rest: Any) -> dict[str, Any]:
    spec = {
        "type": "object",
        "required": ["image"],
        "properties": {
            "image": {"type": "string"},
            "replicas": {"type": "integer", "default": 1, "minimum": 0, "maximum": 5},
            "color": {"type": "string", "enum": ["red", "blue"]},
        },
    }
    status = {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    column = {"name": "Image", "type": "string", "jsonPath": ".spec.image"}
    base = {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": schema,
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": [column],
        "selectableFields": [{"jsonPath": ".spec.color"}],
    }
    return {**base, **rest}


def definition(plural: str = "foos", kind: str = "Foo", **spec: Any) -> dict[str, Any]:
    names = {"plural": plural, "kind": kind}
    base = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version()]}
    return {"metadata": {"name": f"{plural}.example.com"}, "spec": {**base, **spec}}


def foo(name: str = "a", **rest: Any) -> dict[str, Any]:
    head = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": name}}
    return {**head, "spec": {"image": "x"}, **rest}


def condition(crd: dict[str, Any], kind: str) -> tuple[str, str]:
    found = next(each for each in crd["status"]["conditions"] if each["type"] == kind)
    return found["status"], found["reason"]


@pytest.fixture
async def foos(api: API) -> API:
    await api.ok("POST", DEFINITIONS, definition())
    return api


async def test_a_definition_is_established_before_the_next_request(foos: API) -> None:
    crd = await foos.ok("GET", f"{DEFINITIONS}/foos.example.com")
    assert condition(crd, "NamesAccepted") == ("True", "NoConflicts")
    assert condition(crd, "Established") == ("True", "InitialNamesAccepted")
    assert crd["status"]["acceptedNames"] == {
        "plural": "foos",
        "singular": "foo",
        "kind": "Foo",
        "listKind": "FooList",
    }
    assert crd["status"]["storedVersions"] == ["v1"]
    await foos.ok("POST", FOOS, foo())


async def test_names_belong_to_one_definition_until_it_is_deleted(foos: API) -> None:
    await foos.ok("POST", DEFINITIONS, definition("others", "Foo"))
    crd = await foos.ok("GET", f"{DEFINITIONS}/others.example.com")
    assert condition(crd, "NamesAccepted") == ("False", "ListKindConflict")
    assert condition(crd, "Established") == ("False", "NotAccepted")
    await foos.rejected(404, "GET", "/apis/example.com/v1/namespaces/default/others")
    await foos.ok("DELETE", f"{DEFINITIONS}/foos.example.com")
    crd = await foos.ok("GET", f"{DEFINITIONS}/others.example.com")
    assert condition(crd, "Established") == ("True", "InitialNamesAccepted")


async def test_an_object_is_pruned_defaulted_and_validated(foos: API) -> None:
    created = await foos.ok("POST", FOOS, foo(spec={"image": "x", "bogus": 1}, status={"replicas": 9}))
    assert created["spec"] == {"image": "x", "replicas": 1}
    assert "status" not in created
    status = await foos.rejected(422, "POST", FOOS, foo("b", spec={"replicas": 9, "color": "green"}))
    assert {each["field"]: each["message"] for each in status["details"]["causes"]} == {
        "spec.image": "Required value",
        "spec.replicas": "Invalid value: 9: spec.replicas in body should be less than or equal to 5",
        "spec.color": 'Unsupported value: "green": supported values: "red", "blue"',
    }


async def test_only_the_spec_raises_the_generation(foos: API) -> None:
    await foos.ok("POST", FOOS, foo())

    async def patched(path: str, body: dict[str, Any]) -> int:
        return int((await foos.ok("PATCH", path, body, content_type=MERGE))["metadata"]["generation"])

    assert await patched(f"{FOOS}/a", {"metadata": {"labels": {"x": "y"}}}) == 1
    assert await patched(f"{FOOS}/a/status", {"status": {"replicas": 2}, "spec": {"image": "no"}}) == 1
    assert await patched(f"{FOOS}/a", {"spec": {"image": "y"}, "status": {"replicas": 7}}) == 2
    found = await foos.ok("GET", f"{FOOS}/a")
    assert (found["spec"]["image"], found["status"]["replicas"]) == ("y", 2)


async def test_scale_uses_the_paths_of_the_definition(foos: API) -> None:
    await foos.ok("POST", FOOS, foo())
    await foos.ok("PATCH", f"{FOOS}/a/status", {"status": {"replicas": 1, "selector": "a=b"}}, content_type=MERGE)
    scale = await foos.ok("PATCH", f"{FOOS}/a/scale", {"spec": {"replicas": 3}}, content_type=MERGE)
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 1, "selector": "a=b"})
    assert (await foos.ok("GET", f"{FOOS}/a"))["spec"]["replicas"] == 3
    status = await foos.rejected(422, "PATCH", f"{FOOS}/a/scale", {"spec": {"replicas": 9}}, content_type=MERGE)
    assert "should be less than or equal to 5" in status["message"]


async def test_an_update_requires_a_resource_version(foos: API) -> None:
    await foos.ok("POST", FOOS, foo())
    status = await foos.rejected(422, "PUT", f"{FOOS}/a", foo())
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in status["message"]


async def test_selectable_fields_and_columns_come_from_the_definition(foos: API) -> None:
    await foos.ok("POST", FOOS, foo("red", spec={"image": "i", "color": "red"}))
    await foos.ok("POST", FOOS, foo("blue", spec={"image": "j", "color": "blue"}))
    found = await foos.ok("GET", f"{FOOS}?fieldSelector=spec.color%3Dred")
    assert [each["metadata"]["name"] for each in found["items"]] == ["red"]
    status = await foos.rejected(400, "GET", f"{FOOS}?fieldSelector=spec.image%3Di")
    assert status["message"] == "field label not supported: spec.image"
    table = await foos.ok("GET", FOOS, accept=TABLE)
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Image"]
    assert [each["cells"] for each in table["rows"]] == [["blue", "j"], ["red", "i"]]


async def test_versions_differ_in_api_version_and_pruning(api: API) -> None:
    free = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    other = {"name": "v2", "served": True, "storage": False, "schema": free, "deprecated": True}
    await api.ok("POST", DEFINITIONS, definition(versions=[version(), other]))
    await api.ok("POST", FOOS, foo())
    response = await api("GET", "/apis/example.com/v2/namespaces/default/foos/a")
    assert b'"apiVersion":"example.com/v2"' in await response.read()
    assert response.headers["warning"] == '299 - "example.com/v2 Foo is deprecated"'


async def test_a_version_that_is_no_longer_served_is_not_found(api: API) -> None:
    versions = [version(), version("v2", storage=False)]
    await api.ok("POST", DEFINITIONS, definition(versions=versions))
    await api.ok("GET", "/apis/example.com/v2/namespaces/default/foos")
    change = {"spec": {"versions": [version(), version("v2", storage=False, served=False)]}}
    await api.ok("PATCH", f"{DEFINITIONS}/foos.example.com", change, content_type=MERGE)
    assert (await api("GET", "/apis/example.com/v2/namespaces/default/foos")).status == 404
    await api.ok("GET", FOOS)


async def test_objects_older_than_the_schema_can_still_be_updated(foos: API) -> None:
    await foos.ok("POST", FOOS, foo(spec={"image": "x", "color": "blue"}))
    narrower = version()
    narrower["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["color"]["enum"] = ["red"]
    await foos.ok("PATCH", f"{DEFINITIONS}/foos.example.com", {"spec": {"versions": [narrower]}}, content_type=MERGE)
    await foos.ok("PATCH", f"{FOOS}/a", {"spec": {"image": "y"}}, content_type=MERGE)
    await foos.rejected(422, "POST", FOOS, foo("b", spec={"image": "x", "color": "blue"}))


async def test_deleting_a_definition_deletes_its_objects(foos: API) -> None:
    await foos.ok("POST", FOOS, foo("free"))
    await foos.ok("POST", FOOS, foo("held", metadata={"name": "held", "finalizers": ["example.com/hold"]}))
    await foos.ok("DELETE", f"{DEFINITIONS}/foos.example.com")
    crd = await foos.ok("GET", f"{DEFINITIONS}/foos.example.com")
    assert condition(crd, "Terminating") == ("True", "InstanceDeletionInProgress")
    left = await foos.ok("GET", FOOS)
    assert [each["metadata"]["name"] for each in left["items"]] == ["held"]
    status = await foos.rejected(403, "POST", FOOS, foo("late"))
    assert status["message"] == (
        'foos.example.com "late" is forbidden: create not allowed while custom resource definition is terminating'
    )
    await foos.ok("PATCH", f"{FOOS}/held", {"metadata": {"finalizers": None}}, content_type=MERGE)
    await foos.rejected(404, "GET", f"{DEFINITIONS}/foos.example.com")
    assert (await foos("GET", FOOS)).status == 404


async def test_a_recreated_definition_has_no_old_objects(foos: API) -> None:
    await foos.ok("POST", FOOS, foo())
    await foos.ok("DELETE", f"{DEFINITIONS}/foos.example.com")
    await foos.ok("POST", DEFINITIONS, definition())
    assert (await foos.ok("GET", FOOS))["items"] == []


async def test_definitions_and_objects_survive_a_restart(tmp_path: Path, clock: VirtualClock) -> None:
    options = ServerOptions(data=tmp_path, clock=clock, tokens={"admin": ADMIN})
    first = APIServer(options)
    await first.start()
    await API(first, clock).ok("POST", DEFINITIONS, definition())
    await API(first, clock).ok("POST", FOOS, foo())
    await first.close()
    second = APIServer(options)
    await second.start()
    assert (await API(second, clock).ok("GET", f"{FOOS}/a"))["spec"]["image"] == "x"
    await second.close()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"scope": "Foo"}, 'spec.scope: Unsupported value: "Foo": supported values: "Cluster", "Namespaced"'),
        ({"versions": [version(storage=False)]}, "must have exactly one version marked as storage version"),
        ({"versions": [version(schema=None)]}, "spec.versions[0].schema.openAPIV3Schema: Required value"),
        ({"versions": [version(), version(storage=False)]}, "must contain unique version names"),
        (
            {"versions": [version(additionalPrinterColumns=[{"name": "x", "type": "y", "jsonPath": "z"}])]},
            'additionalPrinterColumns[0].type: Invalid value: "y": must be one of boolean,date,integer,number,string',
        ),
        (
            {"versions": [version(selectableFields=[{"jsonPath": ".spec.nope"}])]},
            'selectableFields[0].jsonPath: Invalid value: ".spec.nope": '
            "is an invalid path: does not refer to a valid field",
        ),
        (
            {"group": "nodot"},
            'metadata.name: Invalid value: "foos.example.com": must be spec.names.plural+"."+spec.group',
        ),
        ({"names": {"plural": "foos", "kind": "bad kind"}}, "may have mixed case, but should otherwise match"),
    ],
)
async def test_invalid_definitions_are_rejected(api: API, spec: dict[str, Any], message: str) -> None:
    status = await api.rejected(422, "POST", DEFINITIONS, definition(**spec))
    assert message in status["message"]


async def test_scope_and_kind_of_an_established_definition_are_immutable(foos: API) -> None:
    change = {"spec": {"scope": "Cluster", "names": {"kind": "Baz"}}}
    status = await foos.rejected(422, "PATCH", f"{DEFINITIONS}/foos.example.com", change, content_type=MERGE)
    assert 'spec.scope: Invalid value: "Cluster": field is immutable' in status["message"]
    assert 'spec.names.kind: Invalid value: "Baz": field is immutable' in status["message"]


async def test_deletion_of_a_definition_continues_after_a_restart(tmp_path: Path, clock: VirtualClock) -> None:
    options = ServerOptions(data=tmp_path, clock=clock, tokens={"admin": ADMIN})
    first = APIServer(options)
    await first.start()
    api = API(first, clock)
    await api.ok("POST", DEFINITIONS, definition())
    await api.ok("POST", FOOS, foo(metadata={"name": "a", "finalizers": ["example.com/hold"]}))
    await api.ok("DELETE", f"{DEFINITIONS}/foos.example.com")
    await first.close()
    second = APIServer(options)
    await second.start()
    api = API(second, clock)
    await api.ok("PATCH", f"{FOOS}/a", {"metadata": {"finalizers": None}}, content_type=MERGE)
    await api.rejected(404, "GET", f"{DEFINITIONS}/foos.example.com")
    await second.close()


async def test_a_column_with_an_invalid_path_stays_empty(api: API) -> None:
    column = {"name": "Broken", "type": "string", "jsonPath": ".spec[?("}
    await api.ok("POST", DEFINITIONS, definition(versions=[version(additionalPrinterColumns=[column])]))
    await api.ok("POST", FOOS, foo())
    table = await api.ok("GET", FOOS, accept=TABLE)
    assert table["rows"][0]["cells"] == ["a", None]


async def test_a_definition_without_served_versions_is_deleted_with_its_objects(
    api: API, caplog: pytest.LogCaptureFixture
) -> None:
    await api.ok("POST", DEFINITIONS, definition())
    await api.ok("POST", FOOS, foo())
    unserved = [{"op": "replace", "path": "/spec/versions/0/served", "value": False}]
    json_patch = "application/json-patch+json"
    await api.ok("PATCH", f"{DEFINITIONS}/foos.example.com", unserved, content_type=json_patch)
    await api.ok("DELETE", f"{DEFINITIONS}/foos.example.com")
    await api.rejected(404, "GET", f"{DEFINITIONS}/foos.example.com")
    await api.ok("POST", DEFINITIONS, definition())
    assert (await api.ok("GET", FOOS))["items"] == []
    assert not caplog.records


async def test_others_are_served_while_very_many_objects_of_a_definition_are_deleted(foos: API) -> None:
    for number in range(120):
        await foos.ok("POST", FOOS, foo(f"f{number}"))
    await foos.ok("DELETE", f"{DEFINITIONS}/foos.example.com")
    left = await foos.ok("GET", FOOS)
    assert 0 < len(left["items"]) < 120
    while (await foos("GET", f"{DEFINITIONS}/foos.example.com")).status == 200:  # noqa: ASYNC110 - its turns end
        await asyncio.sleep(0.01)
    await foos.ok("POST", DEFINITIONS, definition())
    assert (await foos.ok("GET", FOOS))["items"] == []


async def test_stored_objects_follow_a_large_schema_after_its_change(foos: API) -> None:
    await foos.ok("POST", FOOS, foo())
    old = await foos.ok("GET", f"{FOOS}/a")
    crd = await foos.ok("GET", f"{DEFINITIONS}/foos.example.com")
    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"]["properties"]["size"] = {"type": "integer", "default": 3}
    properties["more"] = {"type": "object", "properties": {f"f{number}": {"type": "string"} for number in range(3000)}}
    await foos.ok("PUT", f"{DEFINITIONS}/foos.example.com", crd)
    while "size" not in (new := await foos.ok("GET", f"{FOOS}/a"))["spec"]:  # noqa: ASYNC110 - the worker adds it
        await asyncio.sleep(0.01)
    assert new["spec"] == old["spec"] | {"size": 3}
    assert new["metadata"] == old["metadata"]
