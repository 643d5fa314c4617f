"""OpenAPI v2 of the built-in kinds, derived from the stored OpenAPI v3 documents.

The two versions describe the same schemas and operations. Version 2 has no defaults and no `oneOf`, keeps the content
types in the operation, and shares the parameters that many operations have.

Follows k8s.io/kube-openapi pkg/builder.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.apiserver.registry.objects import decode_json, encode_json

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")
_UNSHARED: Final = ("name", "fieldValidation", "dryRun")
"""kubectl looks for the last two in the operations themselves."""
_KINDS: Final = "x-kubernetes-group-version-kind"
_TYPES: Final = (
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
"""The order of content types."""
_MACHINERY: Final = "#/definitions/io.k8s.apimachinery"


def built_in(paths: Iterable[str]) -> JSONObject:
    """Return the `paths`, `definitions` and `parameters` of the v3 documents with these paths."""
    definitions: JSONObject = {}
    operations: JSONObject = {}
    parameters: JSONObject = {}
    for path in paths:
        document = decode_json(catalog.openapi_v3(path).json)
        for name, schema in document.get("components", {}).get("schemas", {}).items():
            if name not in definitions:
                definitions[name] = _schema(schema)
            elif schema.get(_KINDS) != definitions[name].get(_KINDS):
                definitions[name][_KINDS] = _merged(definitions[name][_KINDS], schema[_KINDS])
        operations |= {each: _path_item(item, parameters) for each, item in document["paths"].items()}
    return {"paths": operations, "definitions": definitions, "parameters": parameters}


def _merged(kinds: list[JSONObject], more: list[JSONObject]) -> list[JSONObject]:
    """Return the kinds of a schema that several groups have, such as DeleteOptions."""
    return sorted([*kinds, *(each for each in more if each not in kinds)], key=lambda each: sorted(each.items()))


def _schema(schema: JSONObject) -> JSONObject:
    """Return a schema of v3 in v2."""
    schema = {key: value for key, value in schema.items() if key != "default"}
    if schema.pop("oneOf", None) is not None:
        schema["type"] = "string"
    match schema.get("allOf"):
        case [{"$ref": _} as reference]:
            del schema["allOf"]
            schema |= reference
        case _:
            pass
    if "$ref" in schema:
        schema["$ref"] = schema["$ref"].replace("#/components/schemas/", "#/definitions/")
    if "properties" in schema:
        schema["properties"] = {name: _schema(each) for name, each in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            schema[key] = _schema(schema[key])
    return schema


def _path_item(item: JSONObject, shared: JSONObject) -> JSONObject:
    found: JSONObject = {method: _operation(item[method], shared) for method in METHODS if method in item}
    if item.get("parameters"):
        found["parameters"] = [_share(_parameter(each), shared) for each in item["parameters"]]
    return found


def _operation(operation: JSONObject, shared: JSONObject) -> JSONObject:
    found = {key: value for key, value in operation.items() if key not in ("parameters", "requestBody", "responses")}
    body = operation.get("requestBody") or {}
    produced = [each["content"] for each in operation["responses"].values() if each.get("content")]
    found["produces"] = sorted(produced[0] if produced else ("*/*",), key=_rank)
    unnamed = ("*/*",) if "x-kubernetes-action" in operation else found["produces"]
    found["consumes"] = sorted(body.get("content") or unnamed, key=_rank)
    found["schemes"] = ["https"]
    parameters = [_body(body)] if body else []
    parameters += [_parameter(each) for each in operation.get("parameters", ())]
    if parameters:
        found["parameters"] = [_share(each, shared) for each in parameters]
    found["responses"] = {code: _response(each) for code, each in operation["responses"].items()}
    return found


def _rank(content_type: str) -> int:
    return _TYPES.index(content_type) if content_type in _TYPES else len(_TYPES)


def _body(body: JSONObject) -> JSONObject:
    [schema, *_] = [_schema(each["schema"]) for each in body["content"].values()]
    return {"name": "body", "in": "body", **({"required": True} if body.get("required") else {}), "schema": schema}


def _parameter(parameter: JSONObject) -> JSONObject:
    """Return a query or path parameter of v3 in v2, with its keys in the order that its shared name depends on."""
    flat = {**_schema(parameter.get("schema") or {}), **parameter}
    order = ("uniqueItems", "type", "description", "name", "in", "required")
    return {key: flat[key] for key in order if key in flat}


def _response(response: JSONObject) -> JSONObject:
    found = {"description": response["description"]}
    for content in (response.get("content") or {}).values():
        return {**found, "schema": _schema(content["schema"])} if "schema" in content else found
    return found


def _share(parameter: JSONObject, shared: JSONObject) -> JSONObject:
    """Return a reference to `parameter`, which is added to `shared`; the parameter itself if it is not shared."""
    name = parameter["name"]
    reference = parameter.get("schema", {}).get("$ref", _MACHINERY)
    if name in _UNSHARED or not reference.startswith(_MACHINERY):
        return parameter
    key = f"{name}-{_digest(encode_json(parameter))}"
    shared[key] = parameter
    return {"$ref": f"#/parameters/{key}"}


_digests: Final[dict[bytes, str]] = {}


def _digest(data: bytes) -> str:
    """Return the first 48 bits of the FNV-1 hash, in base64."""
    if data not in _digests:
        value = 0xCBF29CE484222325
        for byte in data:
            value = (value * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF) ^ byte
        _digests[data] = base64.urlsafe_b64encode(value.to_bytes(8, "big")[:6]).decode()
    return _digests[data]
