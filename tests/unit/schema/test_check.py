"""Invalid schemas of CRDs are rejected with the messages of the API server."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright_controlplane.schema.structural.check import check

TEXT: dict[str, Any] = {"type": "string"}


def told(schema: dict[str, Any]) -> list[str]:
    return [str(each) for each in check(schema)]


def with_spec(spec: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": spec}}


def test_schemas_from_controller_gen_are_accepted() -> None:
    schema = {
        "description": "WebServer is the Schema for the webservers API",
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string", "description": "..."},
            "kind": {"type": "string", "description": "..."},
            "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "required": ["image"],
                "properties": {
                    "image": {"type": "string", "minLength": 1},
                    "replicas": {"type": "integer", "format": "int32", "default": 1, "minimum": 0},
                    "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                    "conditions": {
                        "type": "array",
                        "items": {"type": "object", "required": ["type"], "properties": {"type": TEXT}},
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["type"],
                    },
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    assert told(schema) == []


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({}, "type: Required value: must not be empty for specified object fields"),
        ({"type": "array"}, "items: Required value: must be specified"),
        ({"type": "array", "items": {}}, "items.type: Required value: must not be empty for specified array items"),
        (
            {"type": "text"},
            'type: Unsupported value: "text": supported values: '
            '"array", "boolean", "integer", "number", "object", "string"',
        ),
        ({"type": "null"}, "type: Forbidden: type cannot be set to null, use nullable as an alternative"),
        ({"$ref": "#/x"}, "$ref: Forbidden: $ref is not supported"),
        ({"type": "string", "pattern": "("}, "pattern: Invalid value: \"(\": must be a valid regular expression"),
        (
            {"type": "object", "properties": {"a": TEXT}, "additionalProperties": TEXT},
            "additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            {"type": "array", "items": TEXT, "uniqueItems": True},
            "uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
            "x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
        ),
        (
            {"type": "integer", "anyOf": [{"type": "integer"}]},
            "anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        ({"type": "integer", "default": "x"}, 'default: Invalid value: "string":  in body must be of type integer'),
        (
            {"type": "object", "properties": {"a": TEXT}, "default": {"b": 1}},
            'default: Invalid value: {"b":1}: must not have unknown fields',
        ),
        (
            {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
                "default": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 5}},
            },
            'default: Invalid value: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":5}}: json: cannot',
        ),
        (
            {"type": "object", "x-kubernetes-list-type": "set"},
            'type: Invalid value: "object": must be array if x-kubernetes-list-type is specified',
        ),
        (
            {"type": "array", "items": TEXT, "x-kubernetes-list-map-keys": ["a"]},
            "x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty",
        ),
        (
            {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"},
            "x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            {
                "type": "array",
                "items": {"type": "object", "properties": {"a": TEXT}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a"],
            },
            "items.properties[a].default: Required value: this property is in x-kubernetes-list-map-keys, "
            "so it must have a default or be a required property",
        ),
        (
            {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"},
            "items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with "
            "x-kubernetes-list-type=set",
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            "properties: Required value: must not be empty if x-kubernetes-embedded-resource is true "
            "without x-kubernetes-preserve-unknown-fields",
        ),
        (
            {"type": "object", "x-kubernetes-map-type": "deep"},
            'x-kubernetes-map-type: Unsupported value: "deep": supported values: "atomic", "granular"',
        ),
    ],
)  # fmt: skip
def test_faults_in_fields_are_reported(spec: dict[str, Any], fault: str) -> None:
    (first, *_) = told(with_spec(spec))
    assert first.startswith(f"openAPIV3Schema.properties[spec].{fault}")


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({}, "openAPIV3Schema.type: Required value: must not be empty at the root"),
        ({"type": "string"}, 'openAPIV3Schema.type: Invalid value: "string": must be object at the root'),
        (
            {"type": "object", "additionalProperties": TEXT},
            "openAPIV3Schema.additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": TEXT}}}},
            "openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name and "
            "generateName, but metadata is implicitly specified",
        ),
        (
            {"type": "object", "properties": {"kind": {"type": "string", "default": "x"}}},
            "openAPIV3Schema.properties[kind].default: Forbidden: must not be set in top-level kind",
        ),
        (
            {"type": "object", "nullable": True},
            "openAPIV3Schema.nullable: Forbidden: nullable cannot be true at the root",
        ),
        (
            {"type": "object", "allOf": [{"properties": {"a": {"minLength": 1}}}]},
            "openAPIV3Schema.properties[a]: Required value: because it is defined in "
            "openAPIV3Schema.allOf[0].properties[a]",
        ),
    ],
)  # fmt: skip
def test_faults_at_the_root_are_reported(schema: dict[str, Any], fault: str) -> None:
    assert fault in told(schema)


def test_faults_contain_the_path_of_the_schema() -> None:
    (fault,) = check({"type": "object", "properties": {"a": {}}}, "spec.validation.openAPIV3Schema")
    assert fault.field == "spec.validation.openAPIV3Schema.properties[a].type"
