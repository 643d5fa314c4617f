"""CustomResourceDefinitions and their objects."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from conformance.definitions import CRDS, crd, established
from conformance.rawapi import API, Answer, until


class Gizmos:
    """A CRD for each test, and the path of its objects."""

    def __init__(self, api: API, ns: str, group: str) -> None:
        self.api = api
        self.group = group
        self.definition = f"{CRDS}/gizmos.{group}"
        self.path = f"{ns.replace('/api/v1', f'/apis/{group}/v1')}/gizmos"

    def gizmo(self, name: str = "g", **spec: Any) -> dict[str, Any]:
        body = {"apiVersion": f"{self.group}/v1", "kind": "Gizmo", "metadata": {"name": name}}
        return {**body, "spec": {"size": 1, **spec}}


@pytest_asyncio.fixture
async def gizmos(api: API, ns: str) -> AsyncIterator[Gizmos]:
    group = f"g{secrets.token_hex(4)}.example.com"
    gizmos = Gizmos(api, ns, group)
    (await api.post(CRDS, crd("gizmos", group))).expect(201)
    await established(api, gizmos.definition)

    async def served() -> bool:
        """Return whether the objects of a CRD, and its discovery, are served."""
        return (await api.get(gizmos.path)).status == (await api.get(f"/apis/{group}/v1")).status == 200

    await until(served)
    yield gizmos
    await api.delete(gizmos.definition)


async def test_a_definition_is_accepted_and_established(api: API, gizmos: Gizmos) -> None:
    found = await established(api, gizmos.definition)
    conditions = {each["type"]: each for each in found["status"]["conditions"]}
    assert conditions["NamesAccepted"]["reason"] == "NoConflicts"
    assert conditions["NamesAccepted"]["message"] == "no conflicts found"
    assert conditions["Established"]["reason"] == "InitialNamesAccepted"
    assert conditions["Established"]["message"] == "the initial names have been accepted"
    names = found["status"]["acceptedNames"]
    assert (names["singular"], names["listKind"]) == ("gizmo", "GizmoList")
    assert found["status"]["storedVersions"] == ["v1"]
    assert found["spec"]["conversion"] == {"strategy": "None"}


async def test_its_resources_are_discovered(api: API, gizmos: Gizmos) -> None:
    found = (await api.get(f"/apis/{gizmos.group}/v1")).expect(200).json
    resources = {each["name"]: each for each in found["resources"]}
    assert set(resources) == {"gizmos", "gizmos/status", "gizmos/scale"}
    assert resources["gizmos"]["singularName"] == "gizmo"
    assert resources["gizmos"]["storageVersionHash"]


async def test_defaults_are_set_and_unknown_fields_pruned(gizmos: Gizmos) -> None:
    body = gizmos.gizmo(bogus=1, free={"any": {"thing": [1]}})
    answer = (await gizmos.api.post(gizmos.path, body)).expect(201)
    assert answer.json["spec"] == {"size": 1, "color": "red", "free": {"any": {"thing": [1]}}}
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.bogus\\""'
    assert answer.json["metadata"]["generation"] == 1


async def test_items_of_its_list_have_a_kind(gizmos: Gizmos) -> None:
    await gizmos.api.post(gizmos.path, gizmos.gizmo())
    found = (await gizmos.api.get(gizmos.path)).json
    assert (found["kind"], found["apiVersion"]) == ("GizmoList", f"{gizmos.group}/v1")
    assert (found["items"][0]["kind"], found["items"][0]["apiVersion"]) == ("Gizmo", f"{gizmos.group}/v1")


async def refusal(gizmos: Gizmos, **spec: Any) -> list[tuple[str, str, str]]:
    answer = (await gizmos.api.post(gizmos.path, gizmos.gizmo(**spec))).expect(422)
    assert answer.message.startswith(f'Gizmo.{gizmos.group} "g" is invalid: ')
    return answer.causes


async def test_every_fault_of_a_value_is_named(gizmos: Gizmos) -> None:
    assert (
        "FieldValueTypeInvalid",
        "spec.size",
        'Invalid value: "string": spec.size in body must be of type integer: "string"',
    ) in await refusal(gizmos, size="x")
    assert await refusal(gizmos, size=6) == [
        ("FieldValueInvalid", "spec.size", "Invalid value: 6: spec.size in body should be less than or equal to 5")
    ]
    assert await refusal(gizmos, size=0) == [
        ("FieldValueInvalid", "spec.size", "Invalid value: 0: spec.size in body should be greater than or equal to 1")
    ]
    assert await refusal(gizmos, color="green") == [
        ("FieldValueNotSupported", "spec.color", 'Unsupported value: "green": supported values: "red", "blue"')
    ]
    assert await refusal(gizmos, code="abcde") == [
        ("FieldValueTooLong", "spec.code", "Too long: may not be more than 4 bytes")
    ]
    assert await refusal(gizmos, code="A") == [
        ("FieldValueInvalid", "spec.code", "Invalid value: \"A\": spec.code in body should match '^[a-z]*$'")
    ]
    assert await refusal(gizmos, tags=["a", "a"]) == [("FieldValueDuplicate", "spec.tags[1]", 'Duplicate value: "a"')]
    assert await refusal(gizmos, items=[{"name": "a"}, {"name": "a"}]) == [
        ("FieldValueDuplicate", "spec.items[1]", 'Duplicate value: {"name":"a"}')
    ]


async def test_a_required_field_is_required(gizmos: Gizmos) -> None:
    body = gizmos.gizmo()
    del body["spec"]["size"]
    answer = (await gizmos.api.post(gizmos.path, body)).expect(422)
    assert answer.causes == [("FieldValueRequired", "spec.size", "Required value")]


async def test_several_faults_are_listed_together(gizmos: Gizmos) -> None:
    answer = (await gizmos.api.post(gizmos.path, gizmos.gizmo(size=6, color="green"))).expect(422)
    assert {cause[1] for cause in answer.causes} == {"spec.size", "spec.color"}
    assert "is invalid: [" in answer.message


async def test_strict_validation_rejects_unknown_fields(gizmos: Gizmos) -> None:
    answer = await gizmos.api.post(f"{gizmos.path}?fieldValidation=Strict", gizmos.gizmo(bogus=1))
    answer.expect(400)
    assert 'strict decoding error: unknown field "spec.bogus"' in answer.message


async def test_a_body_without_a_kind_is_a_bad_request(gizmos: Gizmos) -> None:
    answer = (await gizmos.api.post(gizmos.path, {"metadata": {"name": "g"}, "spec": {"size": 1}})).expect(400)
    assert "Object 'Kind' is missing in" in answer.message


async def test_owners_of_fields_in_a_removed_version_stop_applies_until_the_next_update(gizmos: Gizmos) -> None:
    api = gizmos.api
    (await api.patch(f"{gizmos.path}/g?fieldManager=a", gizmos.gizmo(), "apply")).expect(201)

    async def change_versions(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
        definition = (await api.get(gizmos.definition)).expect(200).json
        definition["spec"]["versions"] = change(definition["spec"]["versions"])
        (await api.put(gizmos.definition, definition)).expect(200)

    await change_versions(lambda old: [{**old[0], "storage": False}, {**old[0], "name": "v2"}])
    path = gizmos.path.replace("/v1/namespaces", "/v2/namespaces")

    async def stored_again() -> bool:
        patch = {"metadata": {"labels": {"a": secrets.token_hex(4)}}}
        return (await api.patch(f"{path}/g?fieldManager=a", patch)).status == 200

    await until(stored_again)
    (await api.patch(f"{gizmos.definition}/status", {"status": {"storedVersions": ["v2"]}})).expect(200)
    await change_versions(lambda old: old[1:])
    body = {**gizmos.gizmo(), "apiVersion": f"{gizmos.group}/v2"}

    async def refusal() -> Answer | None:
        answer = await api.patch(f"{path}/g?fieldManager=b&dryRun=All", body, "apply")
        return answer if answer.status == 500 else None

    refused = await until(refusal)
    assert refused.message == f"request to convert CR to an invalid group/version: {gizmos.group}/v1"
    assert refused.reason is None
    updated = (await api.patch(f"{path}/g", {"metadata": {"labels": {"a": "b"}}})).expect(200).json
    assert "managedFields" not in updated["metadata"]
    (await api.patch(f"{path}/g?fieldManager=b", body, "apply")).expect(200)


async def test_watches_end_when_the_definition_changes(gizmos: Gizmos) -> None:
    made = (await gizmos.api.post(gizmos.path, gizmos.gizmo())).expect(201).json
    stream = await gizmos.api.watch(f"{gizmos.path}?watch=1&resourceVersion={made['metadata']['resourceVersion']}")
    definition = (await gizmos.api.get(gizmos.definition)).expect(200).json
    [version] = definition["spec"]["versions"]
    definition["spec"]["versions"] = [{**version, "storage": False}, {**version, "name": "v2"}]
    (await gizmos.api.put(gizmos.definition, definition)).expect(200)
    with pytest.raises(StopAsyncIteration):
        await stream.next()


async def test_mistakes_in_a_written_status_are_named_below_it(gizmos: Gizmos) -> None:
    await gizmos.api.post(gizmos.path, gizmos.gizmo())

    async def causes(status: object) -> list[tuple[str, str, str]]:
        answer = await gizmos.api.patch(f"{gizmos.path}/g/status", {"status": status}, "merge")
        return answer.expect(422).causes

    assert sorted(await causes({"phase": 1, "addresses": ["1.2.3.4", "x"]})) == [
        (
            "FieldValueTypeInvalid",
            "status.addresses[1]",
            'Invalid value: "x": addresses[1] in body must be of type ipv4: "x"',
        ),
        (
            "FieldValueTypeInvalid",
            "status.phase",
            'Invalid value: "integer": phase in body must be of type string: "integer"',
        ),
    ]
    [whole, counted] = await causes("x")
    assert whole == (
        "FieldValueTypeInvalid",
        "status",
        'Invalid value: "string":  in body must be of type object: "string"',
    )
    assert "accessor error: x is of the type string" in counted[2]
    assert await causes({"replicas": -1}) == [
        ("FieldValueInvalid", ".status.replicas", "Invalid value: -1: should be a non-negative integer")
    ]
    [alternatives, *_] = await causes({"mode": "bc"})
    assert alternatives == (
        "FieldValueInvalid",
        "status",
        'Invalid value: "": "mode" must validate at least one schema (anyOf)',
    )


async def test_status_is_written_through_its_subresource(gizmos: Gizmos) -> None:
    made = (await gizmos.api.post(gizmos.path, {**gizmos.gizmo(), "status": {"phase": "x"}})).expect(201).json
    assert "status" not in made
    made["status"], made["spec"]["size"] = {"phase": "Ready"}, 4
    through_status = (await gizmos.api.put(f"{gizmos.path}/g/status", made)).expect(200).json
    assert (through_status["status"], through_status["spec"]["size"]) == ({"phase": "Ready"}, 1)
    assert through_status["metadata"]["generation"] == 1
    through_status["status"], through_status["spec"]["size"] = {"phase": "Other"}, 4
    through_spec = (await gizmos.api.put(f"{gizmos.path}/g", through_status)).expect(200).json
    assert (through_spec["status"], through_spec["spec"]["size"]) == ({"phase": "Ready"}, 4)
    assert through_spec["metadata"]["generation"] == 2


async def test_a_status_write_checks_the_uid_only_in_a_put_or_a_json_patch_test(gizmos: Gizmos) -> None:
    made = (await gizmos.api.post(gizmos.path, gizmos.gizmo())).expect(201).json
    status, other = f"{gizmos.path}/g/status", {"metadata": {"uid": "another"}, "status": {"phase": "Ready"}}
    patched = (await gizmos.api.patch(status, other)).expect(200).json
    assert (patched["metadata"]["uid"], patched["status"]) == (made["metadata"]["uid"], {"phase": "Ready"})

    patched["metadata"]["uid"] = "another"
    refused = (await gizmos.api.put(status, patched)).expect(409)
    assert "Precondition failed: UID in precondition: another" in refused.message

    test = {"op": "test", "path": "/metadata/uid", "value": "another"}
    change = {"op": "add", "path": "/status/phase", "value": "Lost"}
    refused = (await gizmos.api.patch(status, [test, change], "json")).expect(422)
    assert refused.message == "the server rejected our request due to an error in our request"
    assert (await gizmos.api.get(f"{gizmos.path}/g")).json["status"] == {"phase": "Ready"}


async def test_an_update_requires_a_resource_version(gizmos: Gizmos) -> None:
    await gizmos.api.post(gizmos.path, gizmos.gizmo())
    answer = (await gizmos.api.put(f"{gizmos.path}/g", gizmos.gizmo(size=2))).expect(422)
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer.message


async def test_the_scale_subresource_is_a_view_of_its_paths(gizmos: Gizmos) -> None:
    await gizmos.api.post(gizmos.path, gizmos.gizmo(size=2))
    scale = (await gizmos.api.get(f"{gizmos.path}/g/scale")).expect(200).json
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 2})
    await gizmos.api.patch(f"{gizmos.path}/g/scale", {"spec": {"replicas": 3}})
    changed = (await gizmos.api.get(f"{gizmos.path}/g")).json
    assert (changed["spec"]["size"], changed["metadata"]["generation"]) == (3, 2)


async def test_a_strategic_patch_of_a_custom_resource_is_unsupported(gizmos: Gizmos) -> None:
    await gizmos.api.post(gizmos.path, gizmos.gizmo())
    answer = (await gizmos.api.patch(f"{gizmos.path}/g", {"spec": {"size": 2}}, "strategic")).expect(415)
    assert "application/merge-patch+json" in answer.message


async def test_apply_merges_its_lists_by_key(gizmos: Gizmos) -> None:
    mine, theirs = gizmos.gizmo(items=[{"name": "a", "value": "1"}]), gizmos.gizmo(items=[{"name": "b"}])
    await gizmos.api.patch(f"{gizmos.path}/g?fieldManager=me", mine, "apply")
    merged = (await gizmos.api.patch(f"{gizmos.path}/g?fieldManager=other", theirs, "apply")).expect(200).json
    assert [each["name"] for each in merged["spec"]["items"]] == ["a", "b"]


async def test_its_table_has_its_columns(gizmos: Gizmos) -> None:
    await gizmos.api.post(gizmos.path, gizmos.gizmo(size=3))
    found = (await gizmos.api.get(gizmos.path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")).json
    assert [each["name"] for each in found["columnDefinitions"]] == ["Name", "Size"]
    assert found["rows"][0]["cells"] == ["g", 3]


async def test_its_schema_is_published(api: API, gizmos: Gizmos) -> None:
    async def published() -> dict[str, str] | None:
        paths: dict[str, dict[str, str]] = (await api.get("/openapi/v3")).json["paths"]
        return paths.get(f"apis/{gizmos.group}/v1")

    url = (await until(published))["serverRelativeURL"]
    schemas = (await api.get(url)).expect(200).json["components"]["schemas"]
    [gizmo] = [each for name, each in schemas.items() if name.endswith(".Gizmo")]
    assert gizmo["properties"]["spec"]["properties"]["size"]["maximum"] == 5
    assert gizmo["x-kubernetes-group-version-kind"] == [{"group": gizmos.group, "version": "v1", "kind": "Gizmo"}]


async def test_deleting_the_definition_deletes_its_objects(api: API, gizmos: Gizmos) -> None:
    await api.post(gizmos.path, gizmos.gizmo())
    (await api.delete(gizmos.definition)).expect(200)

    async def gone() -> bool:
        return (await api.get(gizmos.definition)).status == 404

    await until(gone)
    (await api.get(f"{gizmos.path}/g")).expect(404)


async def test_a_definition_with_the_wrong_name_is_invalid(api: API) -> None:
    body = crd("gizmos", "wrong.example.com")
    body["metadata"]["name"] = "other.wrong.example.com"
    answer = (await api.post(CRDS, body)).expect(422)
    assert ("FieldValueInvalid", "metadata.name") in [cause[:2] for cause in answer.causes]


async def test_a_schema_that_is_not_structural_is_invalid(api: API) -> None:
    body = crd("gizmos", "wrong.example.com")
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {"properties": {"a": {}}}
    answer = (await api.post(CRDS, body)).expect(422)
    fields = {cause[1] for cause in answer.causes}
    assert "spec.versions[0].schema.openAPIV3Schema.properties[spec].type" in fields or any(
        field.endswith("properties[spec].type") for field in fields
    ), answer.causes


def ruled(rule: str, **rest: Any) -> dict[str, Any]:
    return {"type": "integer", "x-kubernetes-validations": [{"rule": rule, **rest}]}


@pytest.mark.parametrize(
    ("schema", "faults"),
    [
        ({"default": 1, **ruled("self == oldSelf")}, []),
        ({"default": 1, **ruled("self > oldSelf")}, ["default: Invalid value: 1: failed rule: self > oldSelf"]),
        ({"default": 1, **ruled("self > 5", message="too small")}, ["default: Invalid value: 1: too small"]),
        ({"default": 2, **ruled("self == oldSelf.orValue(2)", optionalOldSelf=True)}, []),
        (
            {"default": 1, **ruled("!oldSelf.hasValue()", optionalOldSelf=True)},
            ["default: Invalid value: 1: failed rule: !oldSelf.hasValue()"],
        ),
        (
            {"default": 1, **ruled("1 / (self - 1) > 0")},
            ['default: Invalid value: "integer": division by zero evaluating rule: 1 / (self - 1) > 0'],
        ),
        (
            {"type": "object", "default": {"x": 1}, "properties": {"x": ruled("self > 5")}},
            ["default.x: Invalid value: 1: failed rule: self > 5"],
        ),
        (
            {"type": "array", "default": [9, 1], "items": ruled("self > 5")},
            ["default[1]: Invalid value: 1: failed rule: self > 5"],
        ),
        (
            {"type": "array", "items": {"type": "object", "properties": {"x": {"default": 1, **ruled("self > 5")}}}},
            ["items.properties[x].default: Invalid value: 1: failed rule: self > 5"],
        ),
        (
            {
                "type": "object",
                "default": {"x": 1},
                "properties": {"x": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.x > 5", "fieldPath": ".x"}],
            },
            ["default.x: Invalid value: failed rule: self.x > 5"],
        ),
    ],
)
async def test_a_default_satisfies_the_rules_of_its_schema(api: API, schema: dict[str, Any], faults: list[str]) -> None:
    body = crd("gizmos", "defaults.example.com")
    root = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["properties"] = {"field": schema}
    answer = await api.post(f"{CRDS}?dryRun=All", body)
    place = "spec.validation.openAPIV3Schema.properties[field]."
    if not faults:
        answer.expect(201)
    else:
        found = answer.expect(422).message.partition(" is invalid: ")[2]
        assert found == ", ".join(place + fault for fault in faults)


async def test_a_definition_stores_exactly_one_version(api: API) -> None:
    body = crd("gizmos", "wrong.example.com", storage=False)
    answer = (await api.post(CRDS, body)).expect(422)
    assert "must have exactly one version marked as storage version" in answer.message


async def test_a_missing_namespace_is_reported_before_validation(gizmos: Gizmos) -> None:
    path = gizmos.path.replace(gizmos.path.split("/")[5], "nons")
    answer = (await gizmos.api.post(path, gizmos.gizmo())).expect(404)
    assert answer.message == 'namespaces "nons" not found'


@pytest.mark.parametrize("group", ["example.k8s.io", "example.kubernetes.io"])
async def test_groups_of_the_kubernetes_project_need_an_approval(api: API, group: str) -> None:
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    name = f"approvals.{group}"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": "approvals", "singular": "approval", "kind": "Approval"}
    spec = {"group": group, "scope": "Cluster", "names": names, "versions": [version]}
    body: dict[str, Any] = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": spec,
    }
    missing = (await api.post(crds, body)).expect(422)
    assert missing.causes[0][:2] == ("FieldValueRequired", "metadata.annotations[api-approved.kubernetes.io]")
    body["metadata"]["annotations"] = {"api-approved.kubernetes.io": "bogus"}
    assert (await api.post(crds, body)).expect(422).causes[0][0] == "FieldValueInvalid"
    body["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://example.com/1"}
    (await api.post(crds, body)).expect(201)

    async def condition() -> Any:
        status = (await api.get(f"{crds}/{name}")).expect(200).json.get("status") or {}
        found = [each for each in status.get("conditions") or () if each["type"].startswith("KubernetesAPIApproval")]
        return found[0] if found else None

    found = await until(condition)
    assert (found["status"], found["reason"]) == ("True", "ApprovedAnnotation")
    assert found["message"] == "approved in https://example.com/1"
    patch = {"metadata": {"annotations": {"api-approved.kubernetes.io": None}}}
    (await api.patch(f"{crds}/{name}", patch)).expect(422)
    await api.delete(f"{crds}/{name}")


async def test_a_list_that_preserves_unknown_fields_keeps_those_of_its_items(api: API, ns: str) -> None:
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    group = "preserving.example.com"
    items = {"type": "object", "properties": {"a": {"type": "string"}}}
    kept = {"type": "array", "x-kubernetes-preserve-unknown-fields": True, "items": items}
    schema = {"x-kubernetes-preserve-unknown-fields": True, "type": "object", "properties": {"spec": kept}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "lists", "singular": "list", "kind": "PreservingList", "listKind": "PreservingLists"}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"lists.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    (await api.post(crds, body)).expect(201)
    path = ns.replace("/api/v1", f"/apis/{group}/v1") + "/lists"

    async def is_served() -> bool:
        return (await api.get(path)).status == 200

    await until(is_served)
    obj = {"apiVersion": f"{group}/v1", "kind": "PreservingList", "metadata": {"name": "a"}, "spec": [{"b": {"c": 1}}]}
    made = (await api.post(f"{path}?fieldValidation=Strict", obj)).expect(201).json
    assert made["spec"] == [{"b": {"c": 1}}]
    await api.delete(f"{crds}/lists.{group}")


async def test_a_root_without_a_type_may_have_a_status(api: API) -> None:
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    group = "untyped.example.com"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"status": {}},
    }
    names = {"plural": "untypeds", "singular": "untyped", "kind": "Untyped"}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"untypeds.{group}"},
        "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [version]},
    }
    (await api.post(f"{crds}?dryRun=All", body)).expect(201)


async def test_null_in_an_enumeration_is_stored(api: API) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "nullable": True, "enum": [None, "x"]}}}
    body = crd("nulls", "enum.example.com", schema={"openAPIV3Schema": schema}, subresources={})
    made = (await api.post(f"{CRDS}?dryRun=All", body)).expect(201).json
    stored = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert stored["properties"]["a"]["enum"] == [None, "x"]


@pytest.mark.parametrize(
    ("schema", "unrecognized"),
    [
        ({"type": "string", "format": "binary"}, "binary"),
        ({"type": "string", "format": "int64"}, "int64"),
        ({"type": "integer", "format": "int64"}, ""),
        ({"type": "integer", "format": "double"}, "double"),
        ({"type": "string", "format": "date-time"}, ""),
        ({"type": "object", "additionalProperties": {"type": "string", "format": "ip"}}, "ip"),
        ({"type": "string", "anyOf": [{"not": {"format": "ip"}}]}, "ip"),
        ({"type": "array", "items": {"type": "string", "format": "ip"}}, "ip"),
    ],
)
async def test_unrecognized_formats_are_warned_of(api: API, schema: dict[str, Any], unrecognized: str) -> None:
    root = {"type": "object", "properties": {"a": schema}}
    body = crd("formats", "format.example.com", schema={"openAPIV3Schema": root}, subresources={})
    made = (await api.post(f"{CRDS}?dryRun=All", body)).expect(201)
    assert made.headers.get("warning", "") == (
        f'299 - "unrecognized format \\"{unrecognized}\\""' if unrecognized else ""
    )


async def test_values_of_another_type_are_reported_by_the_format(api: API, ns: str) -> None:
    fields = {
        "count": {"type": "integer", "format": "int32"},
        "ratio": {"type": "number", "format": "double"},
        "data": {"type": "string", "format": "byte"},
        "plain": {"type": "integer"},
        "left": {"type": "string"},
        "right": {"type": "string"},
        "free": {
            "type": "array",
            "x-kubernetes-preserve-unknown-fields": True,
            "items": {"type": "object", "properties": {"known": {"type": "object", "properties": {}}}},
        },
    }
    rule = {"rule": "size(self.left) > 0 || size(self.right) > 0"}
    spec = {"type": "object", "properties": {**fields, "size": {"type": "integer"}}}
    group = f"formats{secrets.token_hex(3)}.example.com"
    properties = {"spec": spec | {"x-kubernetes-validations": [rule]}, "status": {"type": "object"}}
    body = crd("values", group, schema={"openAPIV3Schema": {"type": "object", "properties": properties}})
    (await api.post(CRDS, body)).expect(201)
    path = f"{ns.replace('/api/v1', f'/apis/{group}/v1')}/values"

    async def is_served() -> bool:
        return (await api.get(path)).status == 200

    await until(is_served)

    async def written(spec: Any, code: int) -> Any:
        obj = {"apiVersion": f"{group}/v1", "kind": "Gizmo", "metadata": {"name": "a"}, "spec": spec}
        return (await api.post(f"{path}?dryRun=All", obj)).expect(code)

    for field, value, expected, found in (
        ("count", True, "int32", ""),
        ("count", 1.5, "int32", "float64"),
        ("count", "x", "integer", "string"),
        ("ratio", {}, "double", ""),
        ("data", 5, "byte", "int64"),
        ("plain", 1.5, "integer", "number"),
    ):
        message = (await written({field: value}, 422)).causes[0][2]
        assert message == f'Invalid value: "{found}": spec.{field} in body must be of type {expected}: "{found}"'

    unanswered = (await written({}, 422)).causes[0][2]
    assert unanswered == f'Invalid value: "object": no such key: left evaluating rule: {rule["rule"]}'
    why = ".spec.size accessor error: 5 is of the type int64, expected map[string]interface{}"
    assert ("FieldValueInvalid", ".spec.size", f"Invalid value: 0: {why}") in (await written(5, 422)).causes
    kept = (await written({"left": "x", "free": [{"unknown": 1, "known": {"pruned": 1}}]}, 201)).json
    assert kept["spec"]["free"] == [{"unknown": 1, "known": {}}]
    await api.delete(f"{CRDS}/values.{group}")
