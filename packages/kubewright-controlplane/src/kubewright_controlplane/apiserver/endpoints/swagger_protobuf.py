"""OpenAPI v2 documents in protobuf, in the messages of gnostic's openapiv2.

Values of any type, such as those of `x-` fields, are strings of YAML; they are written as JSON, which is YAML.

Follows github.com/google/gnostic-models openapiv2/OpenAPIv2.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.protobuf import wire
from kubewright_controlplane.apiserver.registry.objects import encode_json

Encode = Callable[[int, Any], bytes]
"""Encodes a value as a field with this number."""


def block(number: int, content: bytes) -> bytes:
    return wire.tag(number, wire.BYTES) + wire.length_delimited(content)


def document(head: JSONObject, paths: bytes, definitions: bytes, parameters: bytes) -> bytes:
    """Return a document with `paths`, `definitions` and `parameters` as the functions below encode them."""
    scheme, token = head["securityDefinitions"]["BearerToken"], _text(1, "BearerToken")
    definition = block(2, block(2, _message(scheme, _API_KEY)))
    return (
        _text(1, head["swagger"])
        + block(2, _text(1, head["info"]["title"]) + _text(2, head["info"]["version"]))
        + block(8, paths)
        + block(9, definitions)
        + block(10, parameters)
        + block(12, block(1, token + block(2, b"")))
        + block(13, block(1, token + definition))
    )


def paths(items: JSONObject) -> bytes:
    return _named(2, items, _path_item)


def definitions(schemas: JSONObject) -> bytes:
    return _named(1, schemas, _schema)


def parameters(shared: JSONObject) -> bytes:
    return _named(1, shared, _parameter)


def _named(number: int, items: JSONObject, encode: Callable[[Any], bytes]) -> bytes:
    return b"".join(block(number, _text(1, name) + block(2, encode(each))) for name, each in items.items())


def _message(value: JSONObject, fields: dict[str, tuple[int, Encode]], extensions: int = 0) -> bytes:
    found = [encode(number, value[key]) for key, (number, encode) in fields.items() if key in value]
    if extensions:
        found += [
            block(extensions, _text(1, key) + block(2, _yaml(each)))
            for key, each in value.items()
            if key.startswith("x-")
        ]
    return b"".join(found)


def _text(number: int, value: str) -> bytes:
    return block(number, value.encode())


def _texts(number: int, values: list[str]) -> bytes:
    return b"".join(_text(number, each) for each in values)


def _flag(number: int, value: bool) -> bytes:
    return wire.tag(number, wire.VARINT) + wire.varint(int(value)) if value else b""


def _integer(number: int, value: float) -> bytes:
    return wire.tag(number, wire.VARINT) + wire.varint(int(value)) if value else b""


def _double(number: int, value: float) -> bytes:
    return wire.tag(number, wire.FIXED64) + struct.pack("<d", value) if value else b""


def _yaml(value: object) -> bytes:
    return _text(2, encode_json(value).decode() + "\n")


def _any(number: int, value: object) -> bytes:
    return block(number, _yaml(value))


def _anys(number: int, values: list[object]) -> bytes:
    return b"".join(_any(number, each) for each in values)


def _type(number: int, value: str) -> bytes:
    return block(number, _text(1, value))


def _items(number: int, value: JSONObject) -> bytes:
    return block(number, block(1, _schema(value)))


def _properties(number: int, value: JSONObject) -> bytes:
    return block(number, definitions(value))


def _additional(number: int, value: JSONObject | bool) -> bytes:
    return block(number, _flag(2, value) if isinstance(value, bool) else block(1, _schema(value)))


def _schemas(number: int, values: list[JSONObject]) -> bytes:
    return b"".join(block(number, _schema(each)) for each in values)


def _schema(value: JSONObject) -> bytes:
    return _message(value, _SCHEMA, 31)


def _external_docs(number: int, value: JSONObject) -> bytes:
    return block(number, _message(value, {"description": (1, _text), "url": (2, _text)}))


def _parameter(value: JSONObject) -> bytes:
    if value["in"] == "body":
        return block(1, _message(value, _BODY, 6))
    if value["in"] == "path":
        return block(2, block(4, _message(value, _PATH, 22)))
    return block(2, block(3, _message(value, _QUERY, 23)))


def _parameters(number: int, values: list[JSONObject]) -> bytes:
    return b"".join(
        block(number, block(2, _text(1, each["$ref"])) if "$ref" in each else block(1, _parameter(each)))
        for each in values
    )


def _responses(number: int, values: JSONObject) -> bytes:
    return block(number, _named(1, values, _response))


def _response(value: JSONObject) -> bytes:
    return block(1, _message(value, {"description": (1, _text), "schema": (2, _response_schema)}))


def _response_schema(number: int, value: JSONObject) -> bytes:
    return block(number, block(1, _schema(value)))


def _operation(number: int, value: JSONObject) -> bytes:
    return block(number, _message(value, _OPERATION, 13))


def _path_item(value: JSONObject) -> bytes:
    return _message(value, _PATH_ITEM, 10)


_API_KEY: Final[dict[str, tuple[int, Encode]]] = {
    "type": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "description": (4, _text),
}
_SCHEMA: Final[dict[str, tuple[int, Encode]]] = {
    "$ref": (1, _text),
    "format": (2, _text),
    "title": (3, _text),
    "description": (4, _text),
    "default": (5, _any),
    "multipleOf": (6, _double),
    "maximum": (7, _double),
    "exclusiveMaximum": (8, _flag),
    "minimum": (9, _double),
    "exclusiveMinimum": (10, _flag),
    "maxLength": (11, _integer),
    "minLength": (12, _integer),
    "pattern": (13, _text),
    "maxItems": (14, _integer),
    "minItems": (15, _integer),
    "uniqueItems": (16, _flag),
    "maxProperties": (17, _integer),
    "minProperties": (18, _integer),
    "required": (19, _texts),
    "enum": (20, _anys),
    "additionalProperties": (21, _additional),
    "type": (22, _type),
    "items": (23, _items),
    "allOf": (24, _schemas),
    "properties": (25, _properties),
    "externalDocs": (29, _external_docs),
    "example": (30, _any),
}
_BODY: Final[dict[str, tuple[int, Encode]]] = {
    "description": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _flag),
    "schema": (5, lambda number, value: block(number, _schema(value))),
}
_PATH: Final[dict[str, tuple[int, Encode]]] = {
    "required": (1, _flag),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (5, _text),
    "format": (6, _text),
    "uniqueItems": (19, _flag),
}
_QUERY: Final[dict[str, tuple[int, Encode]]] = {
    **_PATH,
    "type": (6, _text),
    "format": (7, _text),
    "uniqueItems": (20, _flag),
}
_OPERATION: Final[dict[str, tuple[int, Encode]]] = {
    "tags": (1, _texts),
    "description": (3, _text),
    "operationId": (5, _text),
    "produces": (6, _texts),
    "consumes": (7, _texts),
    "parameters": (8, _parameters),
    "responses": (9, _responses),
    "schemes": (10, _texts),
    "deprecated": (11, _flag),
}
_PATH_ITEM: Final[dict[str, tuple[int, Encode]]] = {
    "get": (2, _operation),
    "put": (3, _operation),
    "post": (4, _operation),
    "delete": (5, _operation),
    "options": (6, _operation),
    "head": (7, _operation),
    "patch": (8, _operation),
    "parameters": (9, _parameters),
}
