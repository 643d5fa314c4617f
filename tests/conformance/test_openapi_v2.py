"""OpenAPI v2: the document that kubectl and generators of clients read, with custom resources in it."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from conformance.rawapi import API, until

PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
ASKED = PROTOBUF.replace("v2.v1.0", "v2@v1.0")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OBJECT_META = "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["a", "n"],
    "properties": {
        "a": {"type": "string", "enum": ["x", "y"], "pattern": "^[a-z]*$"},
        "n": {"type": "string", "nullable": True, "description": "May be null"},
        "size": {"type": "integer", "format": "int32", "default": 1, "minimum": 0},
        "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"foo": {"type": "string"}},
        },
        "open": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"foo": {"type": "string"}},
        },
        "numbers": {"type": "object", "additionalProperties": {"type": "number", "nullable": True}},
        "any": {"type": "object", "additionalProperties": True},
        "list": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
        },
        "one": {"type": "object", "oneOf": [{"required": ["q"]}], "properties": {"q": {"type": "boolean"}}},
    },
}
PUBLISHED: dict[str, Any] = {
    "a": {"type": "string", "pattern": "^[a-z]*$", "enum": ["x", "y"]},
    "n": {"description": "May be null"},
    "size": {"type": "integer", "format": "int32", "minimum": 0},
    "port": {"x-kubernetes-int-or-string": True},
    "open": {"x-kubernetes-preserve-unknown-fields": True},
    "numbers": {"type": "object", "additionalProperties": {}},
    "any": {"type": "object", "additionalProperties": True},
    "list": SPEC["properties"]["list"],
    "one": {"type": "object", "properties": {"q": {"type": "boolean"}}},
}
"""The fields of `SPEC` in version 2, without the embedded resource."""


def crd(group: str) -> dict[str, Any]:
    schema = {"description": "A gadget", "type": "object", "properties": {"spec": SPEC}}
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"spec": SPEC}}
    subresources = {
        "status": {},
        "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": subresources,
                    "selectableFields": [{"jsonPath": ".spec.a"}],
                    "schema": {"openAPIV3Schema": schema},
                },
                {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": anything}},
            ],
        },
    }


async def published(api: API, name: str) -> dict[str, Any]:
    """Return the document once it has the definition."""

    async def with_definition() -> dict[str, Any] | None:
        document: dict[str, Any] = (await api.get("/openapi/v2")).expect(200).json
        return document if name in document["definitions"] else None

    return await until(with_definition)


async def test_built_in_kinds_are_published(api: API) -> None:
    document = (await api.get("/openapi/v2")).expect(200).json
    assert (document["swagger"], document["info"]["title"]) == ("2.0", "Kubernetes")
    pod = document["definitions"]["io.k8s.api.core.v1.Pod"]
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "Pod", "version": "v1"}]
    assert pod["properties"]["metadata"]["$ref"] == OBJECT_META
    quantity, either = (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    )
    assert document["definitions"][quantity]["type"] == "string"
    assert document["definitions"][either]["format"] == "int-or-string"
    operation = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert operation["operationId"] == "patchCoreV1NamespacedPod"
    assert operation["consumes"][0] == "application/json-patch+json"
    assert {"dryRun", "fieldValidation"} <= {each.get("name") for each in operation["parameters"]}
    shared = [each["$ref"].removeprefix("#/parameters/") for each in operation["parameters"] if "$ref" in each]
    assert shared
    assert set(shared) <= set(document["parameters"])


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("application/json", "application/json"),
        ("*/*", "application/json"),
        (ASKED, PROTOBUF),
        (PROTOBUF, PROTOBUF),
        (f"application/json;q=0.5, {ASKED}", PROTOBUF),
    ],
)
async def test_the_client_chooses_the_encoding(api: API, accept: str, content_type: str) -> None:
    answer = (await api.get("/openapi/v2", accept=accept)).expect(200)
    assert answer.headers["content-type"] == content_type
    assert answer.body.startswith(b"{" if content_type == "application/json" else b"\x0a\x032.0\x12")


@pytest.mark.parametrize("accept", ["text/html", "application/yaml"])
async def test_other_encodings_are_not_acceptable(api: API, accept: str) -> None:
    (await api.get("/openapi/v2", accept=accept)).expect(406)


async def test_a_document_that_the_client_has_is_not_sent_again(api: API) -> None:
    async def unchanged() -> bool:
        tag = (await api.get("/openapi/v2")).expect(200).headers["etag"]
        return (await api.get("/openapi/v2", if_none_match=tag)).status == 304

    await until(unchanged)
    packed = (await api.get("/openapi/v2", accept_encoding="gzip")).expect(200)
    assert packed.json["swagger"] == "2.0"


async def test_custom_resources_are_published(api: API) -> None:
    group = f"t{secrets.token_hex(4)}.example.com"
    prefix = f"com.example.{group.partition('.')[0]}"
    definition = f"{CRDS}/gadgets.{group}"
    (await api.post(CRDS, crd(group))).expect(201)
    try:
        await published(api, f"{prefix}.v2.Gadget")
        document = await published(api, f"{prefix}.v1.Gadget")
        check_definitions(document["definitions"], prefix, group)
        check_paths(document["paths"], prefix, group)
        in_protobuf = (await api.get("/openapi/v2", accept=ASKED)).expect(200).body
        assert f"{prefix}.v1.Gadget".encode() in in_protobuf
        rename = [{"op": "replace", "path": "/spec/versions/1/name", "value": "v3"}]
        (await api.patch(definition, rename, "json")).expect(200)
        document = await published(api, f"{prefix}.v3.Gadget")
        assert f"{prefix}.v2.Gadget" not in document["definitions"]
        assert f"{prefix}.v1.Gadget" in document["definitions"]
    finally:
        await api.delete(definition)

    async def removed() -> bool:
        document = (await api.get("/openapi/v2")).expect(200).json
        return f"{prefix}.v1.Gadget" not in document["definitions"]

    await until(removed)


def check_definitions(definitions: dict[str, Any], prefix: str, group: str) -> None:
    gadget, gadgets = definitions[f"{prefix}.v1.Gadget"], definitions[f"{prefix}.v1.GadgetList"]
    assert gadget["x-kubernetes-group-version-kind"] == [{"group": group, "kind": "Gadget", "version": "v1"}]
    assert gadget["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.a"}]
    assert gadget["description"] == "A gadget"
    assert gadget["properties"]["metadata"]["$ref"] == OBJECT_META
    spec = gadget["properties"]["spec"]
    assert spec["required"] == ["a"]
    template = spec["properties"].pop("template")
    assert spec["properties"] == PUBLISHED
    assert sorted(template["properties"]) == ["apiVersion", "foo", "kind", "metadata"]
    assert template["required"] == ["kind", "apiVersion"]
    assert gadgets["properties"]["items"]["items"] == {"$ref": f"#/definitions/{prefix}.v1.Gadget"}
    assert gadgets["required"] == ["items"]
    assert definitions[f"{prefix}.v2.Gadget"] == {
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": group, "kind": "Gadget", "version": "v2"}],
    }


def check_paths(paths: dict[str, Any], prefix: str, group: str) -> None:
    root = f"/apis/{group}/v1/namespaces/{{namespace}}/gadgets"
    operations = {
        path.removeprefix(root): {
            method: each["operationId"] for method, each in item.items() if method != "parameters"
        }
        for path, item in paths.items()
        if path.startswith(root)
    }
    middle = f"{group[0].upper()}{group[1:].removesuffix('.example.com')}ExampleComV1"
    assert operations[""] == {
        "get": f"list{middle}NamespacedGadget",
        "post": f"create{middle}NamespacedGadget",
        "delete": f"delete{middle}CollectionNamespacedGadget",
    }
    assert sorted(operations["/{name}"]) == ["delete", "get", "patch", "put"]
    assert operations["/{name}/status"]["put"] == f"replace{middle}NamespacedGadgetStatus"
    assert sorted(operations["/{name}/scale"]) == ["get", "patch", "put"]
    every = paths[f"/apis/{group}/v1/gadgets"]["get"]
    assert every["operationId"] == f"list{middle}GadgetForAllNamespaces"
    assert every["responses"]["200"]["schema"] == {"$ref": f"#/definitions/{prefix}.v1.GadgetList"}
    create = paths[root]["post"]
    assert create["description"] == "create a Gadget"
    assert sorted(create["responses"]) == ["200", "201", "202", "401"]
    assert f"/apis/{group}/v2/namespaces/{{namespace}}/gadgets/{{name}}/status" not in paths
