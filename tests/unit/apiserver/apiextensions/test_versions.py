"""Versions of a CustomResourceDefinition: the paths of their faults, and what they must have in common."""

from __future__ import annotations

from typing import Any

import pytest

from unit.apiserver.harness import API, MERGE

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = f"{DEFINITIONS}/foos.example.com"


def schema(**fields: str) -> dict[str, Any]:
    return {"type": "object", "properties": {field: {"type": kind} for field, kind in fields.items()}}


def version(name: str, of: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": of}, **rest}


def definition(*versions: dict[str, Any]) -> dict[str, Any]:
    spec = {"group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"}}
    return {"metadata": {"name": "foos.example.com"}, "spec": {**spec, "versions": versions}}


WRONG, GOOD, OTHER = schema(x="foo"), schema(x="string"), schema(x="string", y="string")
BY_X, BY_Y = [{"jsonPath": ".x"}], [{"jsonPath": ".y"}]
TYPES = 'Unsupported value: "foo": supported values: "array", "boolean", "integer", "number", "object", "string"'


@pytest.mark.parametrize(
    ("versions", "fields"),
    [
        ([version("v1", WRONG)], ["spec.validation.openAPIV3Schema.properties[x].type"]),
        ([version("v1", WRONG), version("v2", WRONG)], ["spec.validation.openAPIV3Schema.properties[x].type"]),
        (
            [version("v1", GOOD), version("v2", WRONG)],
            ["spec.versions[1].schema.openAPIV3Schema.properties[x].type"],
        ),
    ],
)
async def test_a_schema_that_all_versions_share_is_validated_once(
    api: API, versions: list[dict[str, Any]], fields: list[str]
) -> None:
    refused = await api.rejected(422, "POST", DEFINITIONS, definition(*versions))
    causes = refused["details"]["causes"]
    assert [(each["field"], each["message"]) for each in causes] == [(field, TYPES) for field in fields]


async def test_versions_with_equal_schemas_need_equal_selectable_fields(api: API) -> None:
    apart = definition(version("v1", OTHER, selectableFields=BY_X), version("v2", OTHER, selectableFields=BY_Y))
    refused = await api.rejected(422, "POST", DEFINITIONS, apart)
    assert [each["field"] for each in refused["details"]["causes"]] == [
        "spec.versions[0].selectableFields",
        "spec.versions[1].selectableFields",
    ]
    alike = definition(version("v1", GOOD, selectableFields=BY_X), version("v2", OTHER, selectableFields=BY_X))
    refused = await api.rejected(422, "POST", DEFINITIONS, alike)
    assert refused["message"].endswith(
        'spec.selectableFields: Invalid value: "": may only be set when validations.schema is included'
    )
    await api.ok(
        "POST",
        DEFINITIONS,
        definition(version("v1", GOOD, selectableFields=BY_X), version("v2", OTHER, selectableFields=BY_Y)),
    )


async def test_exactly_one_version_is_the_storage_version(api: API) -> None:
    refused = await api.rejected(422, "POST", DEFINITIONS, definition(version("v2", GOOD)))
    assert refused["details"]["causes"][0]["message"] == (
        'Invalid value: [{"Name":"v2","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,'
        '"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]: '
        "must have exactly one version marked as storage version"
    )


async def test_the_storage_version_is_always_in_stored_versions(api: API) -> None:
    await api.ok("POST", DEFINITIONS, definition(version("v1", GOOD)))
    none: dict[str, Any] = {"status": {"storedVersions": []}}
    changed = await api.ok("PATCH", f"{NAME}/status", none, content_type=MERGE)
    assert changed["status"]["storedVersions"] == ["v1"]


async def test_an_invalid_definition_can_still_be_deleted(api: API) -> None:
    await api.ok("POST", DEFINITIONS, definition(version("v1", GOOD)))
    await api.ok("PATCH", f"{NAME}/status", {"status": {"storedVersions": ["v3"]}}, content_type=MERGE)
    await api.ok("DELETE", NAME)
    await api.rejected(404, "GET", NAME)


async def test_replica_counts_must_be_valid_counts(api: API) -> None:
    loose = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    await api.ok("POST", DEFINITIONS, definition(version("v1", loose, subresources={"scale": scale})))
    foo = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"replicas": "many"}}
    refused = await api.rejected(422, "POST", "/apis/example.com/v1/namespaces/default/foos", foo)
    assert refused["message"] == (
        'Foo.example.com "a" is invalid: .spec.replicas: Invalid value: 0: .spec.replicas accessor error: '
        "many is of the type string, expected int64"
    )


async def test_a_missing_subresource_of_a_version_is_not_found(api: API) -> None:
    await api.ok("POST", DEFINITIONS, definition(version("v1", GOOD)))
    foos = "/apis/example.com/v1/namespaces/default/foos"
    await api.ok("POST", foos, {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}})
    refused = await api.rejected(404, "PATCH", f"{foos}/a/status", {"status": {}}, content_type=MERGE)
    assert refused["message"] == 'foos.example.com "a" not found'
