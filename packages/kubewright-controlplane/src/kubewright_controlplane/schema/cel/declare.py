"""The types of a schema's values in expressions: of `self`, and of everything that can be selected from it.

An expression cannot access a value whose schema says too little: a value of any type, or one that preserves unknown
fields.

Follows k8s.io/apiserver/pkg/cel/common/schemas.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kubewright.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
)  # fmt: skip
from kubewright.machinery.cel_names import escape
from kubewright.machinery.json import JSONObject, is_object

REQUEST_BYTES: Final = 3 * 1024 * 1024
_TEXT_BYTES: Final = REQUEST_BYTES - 2
_TEXT: Final[JSONObject] = {"type": "string"}
_METADATA: Final[JSONObject] = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
_KEY: Final = replace(STRING, max_size=0, min_serialized=2)
"""The type of keys. For estimates they are empty."""
_TIMES: Final[Mapping[str, Type]] = {
    "duration": replace(DURATION, max_size=32, min_serialized=3),
    "date": replace(TIMESTAMP, max_size=12, min_serialized=12),
    "date-time": replace(TIMESTAMP, max_size=32, min_serialized=21),
}


def declared(schema: JSONObject, *, root: bool = False, name: str = "selfType") -> Type | None:
    """Return the type of the values of `schema`; None if expressions cannot access them.

    At the `root` of a kind, and of an embedded resource, there are always apiVersion, kind, metadata.name and
    metadata.generateName.
    """
    if schema.get("x-kubernetes-int-or-string"):
        longest = schema.get("maxLength")
        return replace(DYN, max_size=_TEXT_BYTES if longest is None else max(longest, 0) * 4)
    match schema.get("type"):
        case "object":
            return _object(schema, name, root=root)
        case "array":
            return _array(schema, name)
        case "string":
            return _text(schema)
        case "boolean":
            return replace(BOOL, max_size=0, min_serialized=4)
        case "number":
            return replace(DOUBLE, max_size=0)
        case "integer":
            return replace(INT, max_size=0)
        case _:
            return None


def _inner(schema: JSONObject, name: str) -> Type | None:
    return declared(schema, root=bool(schema.get("x-kubernetes-embedded-resource")), name=name)


def _object(schema: JSONObject, name: str, *, root: bool) -> Type | None:
    values = schema.get("additionalProperties")
    if is_object(values):
        return _map(schema, values, f"{name}.@values")
    properties: JSONObject = dict(schema.get("properties") or {})
    if root and not _has_metadata(properties):
        properties = {**properties, "apiVersion": _TEXT, "kind": _TEXT, "metadata": _METADATA}
    required: list[str] = schema.get("required") or []
    fields: dict[str, Type] = {}
    smallest = 2
    for key, child in properties.items():
        found = _inner(child, f"{name}.{key}")
        identifier = escape(key)
        if found is None:
            continue
        if identifier is not None:
            fields[identifier] = found
        if key in required and child.get("default") is None:
            smallest += len(key) + found.min_serialized + 4
    return Type(name, fields=fields, max_size=0, min_serialized=smallest)


def _has_metadata(properties: JSONObject) -> bool:
    """Return whether the schema of a whole resource declares what expressions can always select."""
    metadata: JSONObject = properties.get("metadata") or {}
    names: JSONObject = metadata.get("properties") or {}
    texts = [properties.get("kind"), properties.get("apiVersion"), names.get("name"), names.get("generateName")]
    return metadata.get("type") == "object" and all(is_object(each) and each.get("type") == "string" for each in texts)


def _map(schema: JSONObject, values: JSONObject, name: str) -> Type | None:
    value = _inner(values, name)
    if value is None:
        return None
    most = schema.get("maxProperties")
    return map_of(_KEY, value, _TEXT_BYTES // (value.min_serialized + 6) if most is None else max(most, 0))


def _array(schema: JSONObject, name: str) -> Type | None:
    items = schema.get("items")
    item = _inner(items, f"{name}.@items") if is_object(items) else None
    if item is None:
        return None
    most = schema.get("maxItems")
    found = list_of(item, _TEXT_BYTES // (item.min_serialized + 1) if most is None else max(most, 0))
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return replace(found, list_keys=())
        case "map":
            return replace(found, list_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()))
        case _:
            return found


def _text(schema: JSONObject) -> Type:
    format = schema.get("format", "")
    if format in _TIMES:
        return _TIMES[format]
    longest = schema.get("maxLength")
    if format == "byte":
        return replace(BYTES, max_size=_TEXT_BYTES if longest is None else max(longest, 0), min_serialized=2)
    if longest is not None:
        most = max(longest, 0) * 4
    elif allowed := schema.get("enum"):
        most = max((len(each) for each in allowed if isinstance(each, str)), default=0)
    else:
        most = _TEXT_BYTES
    return replace(STRING, max_size=most, min_serialized=2)
