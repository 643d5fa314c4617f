"""What makes a schema structural: each value has one type, said outside of `allOf`, `anyOf`, `oneOf` and `not`.

Follows k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from kubewright.machinery.fields import FieldError, forbidden, invalid, required
from kubewright.machinery.json import JSONArray, JSONObject, is_array, is_object
from kubewright_controlplane.schema.pattern import compile_pattern

_Level: TypeAlias = Literal["root", "item", "field"]

_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_NO_TYPE: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_FORBIDDEN_INSIDE: Final = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_METADATA_FIELDS: Final = frozenset({"type", "properties", "default", "description"})


def structural_faults(schema: JSONObject, path: str) -> list[FieldError]:
    """Why `schema`, the root of a kind, is not structural; sorted as the API server tells them."""
    faults: list[FieldError] = []
    _check_node(schema, "root", path, faults)
    _check_complete(schema, schema, path, path, faults)
    return sorted(faults, key=str)


def _check_node(schema: JSONObject, level: _Level, path: str, faults: list[FieldError]) -> None:
    items, values = schema.get("items"), schema.get("additionalProperties")
    properties: JSONObject = schema.get("properties") or {}
    if schema.get("type") == "array" and items is None:
        faults.append(required(f"{path}.items", "must be specified"))
    if is_object(items):
        _check_node(items, "item", f"{path}.items", faults)
    for key, child in properties.items():
        if key == "metadata" and level == "root":
            _check_root_metadata(child, f"{path}.properties[{key}]", faults)
        else:
            _check_node(child, "field", f"{path}.properties[{key}]", faults)
    if values is not None and level == "root":
        faults.append(forbidden(f"{path}.additionalProperties", "must not be used at the root"))
    if is_object(values):
        _check_node(values, "field", f"{path}.additionalProperties", faults)
    _check_type(schema, level, path, faults)
    _check_extensions(schema, path, faults)
    if level == "root" or schema.get("x-kubernetes-embedded-resource"):
        _check_object_fields(properties, path, faults)
    _check_values(schema, path, faults, skip=_int_or_string_part(schema))


def _check_type(schema: JSONObject, level: _Level, path: str, faults: list[FieldError]) -> None:
    kind = schema.get("type", "")
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("x-kubernetes-embedded-resource") and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        faults.append(invalid(f"{path}.type", kind, text) if kind else required(f"{path}.type", text))
    elif not kind and not free:
        faults.append(required(f"{path}.type", _NO_TYPE[level]))
    if level == "root" and kind and kind != "object":
        faults.append(invalid(f"{path}.type", kind, "must be object at the root"))


def _check_extensions(schema: JSONObject, path: str, faults: list[FieldError]) -> None:
    embedded = schema.get("x-kubernetes-embedded-resource")
    preserve = schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("x-kubernetes-int-or-string"):
        text = "must be false if x-kubernetes-int-or-string is true"
        if preserve:
            faults.append(invalid(f"{path}.x-kubernetes-preserve-unknown-fields", True, text))
        if embedded:
            faults.append(invalid(f"{path}.x-kubernetes-embedded-resource", True, text))
    if embedded and schema.get("additionalProperties") is not None:
        text = "must not be used if x-kubernetes-embedded-resource is set"
        faults.append(forbidden(f"{path}.additionalProperties", text))
    if embedded and not preserve and not schema.get("properties"):
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        faults.append(required(f"{path}.properties", text))


def _check_object_fields(properties: JSONObject, path: str, faults: list[FieldError]) -> None:
    for key, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if key in properties and properties[key].get("type", "") != wanted:
            place = f"{path}.properties[{key}].type"
            faults.append(invalid(place, properties[key].get("type", ""), f"must be {wanted}"))


def _check_root_metadata(schema: JSONObject, path: str, faults: list[FieldError]) -> None:
    if not schema.keys() <= _METADATA_FIELDS or not (schema.get("properties") or {}).keys() <= {"name", "generateName"}:
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        faults.append(forbidden(path, text))


def _int_or_string_part(schema: JSONObject) -> str:
    """Where a schema is allowed to say, in other words than the extension's, that it is an integer or a string."""
    if schema.get("anyOf") == _INT_OR_STRING:
        return "anyOf"
    every = schema.get("allOf")
    return "allOf" if is_array(every) and every and every[0].get("anyOf") == _INT_OR_STRING else ""


def _check_values(schema: JSONObject, path: str, faults: list[FieldError], *, skip: str = "") -> None:
    for junctor in ("anyOf", "allOf", "oneOf"):
        parts: JSONArray = schema.get(junctor) or []
        if junctor == "anyOf" == skip:
            continue
        for index, part in enumerate(parts):
            inner = "anyOf" if junctor == "allOf" == skip and index == 0 else ""
            _check_inside(part, f"{path}.{junctor}[{index}]", faults, skip=inner)
    if is_object(unwanted := schema.get("not")):
        _check_inside(unwanted, f"{path}.not", faults)
    if pattern := schema.get("pattern"):
        try:
            compile_pattern(pattern)
        except ValueError as error:
            text = f"must be a valid regular expression, but isn't: error parsing regexp: {error}"
            faults.append(invalid(f"{path}.pattern", pattern, text))


def _check_inside(schema: JSONObject, path: str, faults: list[FieldError], *, skip: str = "") -> None:
    """A schema inside a junctor may judge values, but not say what they are."""
    _check_values(schema, path, faults, skip=skip)
    if is_object(items := schema.get("items")):
        _check_inside(items, f"{path}.items", faults)
    properties: JSONObject = schema.get("properties") or {}
    for key, child in properties.items():
        _check_inside(child, f"{path}.properties[{key}]", faults)
    faults.extend(forbidden(f"{path}.{key}", text) for key, text in _FORBIDDEN_INSIDE.items() if schema.get(key))
    if "metadata" in properties:
        faults.append(forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context"))


def _check_complete(judging: JSONObject, shape: JSONObject, at: str, judged_in: str, faults: list[FieldError]) -> None:
    """Whatever is judged inside a junctor is also described outside of it."""
    parts: list[tuple[str, JSONObject]] = []
    if is_object(unwanted := judging.get("not")):
        parts.append((f"{judged_in}.not", unwanted))
    for junctor in ("allOf", "anyOf", "oneOf"):
        found: JSONArray = judging.get(junctor) or []
        parts.extend((f"{judged_in}.{junctor}[{index}]", part) for index, part in enumerate(found))
    for place, part in parts:
        _check_counterpart(part, shape, at, place, faults)


def _check_counterpart(
    part: JSONObject, shape: JSONObject | None, at: str, judged_in: str, faults: list[FieldError]
) -> None:
    if shape is None:
        faults.append(required(at, f"because it is defined in {judged_in}"))
        return
    _check_complete(part, shape, at, judged_in, faults)
    if is_object(items := part.get("items")):
        _check_counterpart(items, shape.get("items"), f"{at}.items", f"{judged_in}.items", faults)
    properties: JSONObject = part.get("properties") or {}
    shaped: JSONObject = shape.get("properties") or {}
    for key, child in properties.items():
        inside = f".properties[{key}]"
        _check_counterpart(child, shaped.get(key), at + inside, judged_in + inside, faults)
