"""Validation of the schema in a CustomResourceDefinition.

A schema must be structural: each value has one type, which is declared outside of `allOf`, `anyOf`, `oneOf` and `not`.

Follows k8s.io/apiextensions-apiserver: pkg/apis/apiextensions/validation, pkg/apiserver/schema/validation.go and
pkg/apiserver/schema/defaulting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from msgspec.structs import replace as replace_struct

from kubewright.machinery.errors import DecodeError
from kubewright.machinery.fields import FieldError, forbidden, invalid, not_supported, required
from kubewright.machinery.formats import is_recognized
from kubewright.machinery.json import JSONArray, JSONObject, copied, is_array, is_object
from kubewright.machinery.patterns import compile_pattern
from kubewright_controlplane.schema.cel.rules import compile_rules
from kubewright_controlplane.schema.cel.verify import keyword_errors, rule_errors
from kubewright_controlplane.schema.node import from_structural
from kubewright_controlplane.schema.structural.constraints import compile_check
from kubewright_controlplane.schema.structural.decode import compile_decoder
from kubewright_controlplane.schema.structural.meta import object_meta
from kubewright_controlplane.schema.walk import UNKNOWN_PATH, Errors, bracketed

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_OBJECT_FIELDS: Final = ("apiVersion", "kind", "metadata")
_UNSUPPORTED: Final = (
    "id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref",
)  # fmt: skip


def check(schema: JSONObject, path: str = "openAPIV3Schema") -> list[FieldError]:
    """Return the errors of `schema` as the `openAPIV3Schema` of a CRD; empty if it is valid.

    The fields of the errors start with `path`. The API server uses `spec.validation.openAPIV3Schema` if all versions
    have the same schema, and `spec.versions[0].schema.openAPIV3Schema` otherwise.
    """
    errors = _unsupported_errors(schema, path)
    if not errors:
        errors = structural_errors(schema, path) or _default_errors(schema, path)
    if schema.get("nullable"):
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    _check_keywords(schema, path, _Context(root=True), errors)
    return errors or rule_errors(schema, path) or _broken_rules(schema, path)


def _unsupported_errors(schema: JSONObject, path: str) -> list[FieldError]:
    """Return the errors in keywords that prevent all further checks."""
    errors: list[FieldError] = []
    for place, each in _all_schemas(schema, path):
        errors.extend(forbidden(f"{place}.{key}", f"{key} is not supported") for key in _UNSUPPORTED if key in each)
        kind = each.get("type", "")
        if kind == "null":
            text = "type cannot be set to null, use nullable as an alternative"
            errors.append(forbidden(f"{place}.type", text))
        elif kind and kind not in _TYPES:
            errors.append(not_supported(f"{place}.type", kind, _TYPES))
        if is_array(each.get("items")):
            errors.append(forbidden(f"{place}.items", "items must be a schema object and not an array"))
    return errors


def _all_schemas(schema: JSONObject, path: str) -> list[tuple[str, JSONObject]]:
    """Return `schema` and all schemas inside it, with their paths."""
    found = [(path, schema)]
    if is_object(items := schema.get("items")):
        found += _all_schemas(items, f"{path}.items")
    for place, part in _combined(schema, path):
        found += _all_schemas(part, place)
    if is_object(unwanted := schema.get("not")):
        found += _all_schemas(unwanted, f"{path}.not")
    properties: JSONObject = schema.get("properties") or {}
    for name, child in properties.items():
        found += _all_schemas(child, f"{path}.properties[{name}]")
    if is_object(values := schema.get("additionalProperties")):
        found += _all_schemas(values, f"{path}.additionalProperties")
    return found


def unrecognized_formats(schema: JSONObject) -> list[str]:
    """Return the formats in `schema` that the API server does not know, and so does not check."""
    return [
        each["format"]
        for _, each in _all_schemas(schema, "")
        if each.get("format") and not is_recognized(each["format"], each.get("type") or "")
    ]


def _combined(
    schema: JSONObject, path: str, junctors: Sequence[str] = ("allOf", "anyOf", "oneOf")
) -> Iterator[tuple[str, JSONObject]]:
    """Yield the schemas that a schema combines, with their paths."""
    for junctor in junctors:
        parts: JSONArray = schema.get(junctor) or []
        yield from ((f"{path}.{junctor}[{index}]", part) for index, part in enumerate(parts))


def _default_errors(schema: JSONObject, path: str) -> list[FieldError]:
    """Return the errors of defaults: each must be a valid value of its schema, without unknown fields."""
    errors: list[FieldError] = []
    value = schema.get("default")
    if value is not None:
        place = f"{path}.default"
        pruned = copied(value)
        try:
            if is_object(pruned) or is_array(pruned):
                compile_decoder(from_structural(schema, object_meta()))(pruned)
        except DecodeError as undecodable:  # in the metadata of an embedded resource
            return [invalid(place, value, str(undecodable))]
        if pruned != value:
            errors.append(invalid(place, value, "must not have unknown fields"))
        found: Errors = []
        compile_check(schema)(value, None, found)
        for where, error in found:
            errors.append(replace_struct(error, field=_joined(place, bracketed(where))))
    if is_object(items := schema.get("items")):
        errors += _default_errors(items, f"{path}.items")
    properties: JSONObject = schema.get("properties") or {}
    for key, child in properties.items():
        errors += _default_errors(child, f"{path}.properties[{key}]")
    return errors


def _joined(path: str, below: str) -> str:
    return f"{path}.{below}" if below and not below.startswith("[") else path + below


def _broken_rules(schema: JSONObject, path: str) -> list[FieldError]:
    """Return the errors of defaults that break a rule, as the value of a new object or as one that does not change."""
    errors: list[FieldError] = []
    value: Any = schema.get("default")
    if value is not None and (rules := compile_rules(from_structural(schema, object_meta()))):
        for error in rules.check(value, None) or rules.check(value, value):
            below = "" if error.field == UNKNOWN_PATH else error.field
            errors.append(replace_struct(error, field=_joined(f"{path}.default", below)))
    if is_object(items := schema.get("items")):
        errors += _broken_rules(items, f"{path}.items")
    properties: JSONObject = schema.get("properties") or {}
    for key, child in properties.items():
        errors += _broken_rules(child, f"{path}.properties[{key}]")
    return errors


@dataclass(frozen=True, slots=True)
class _Context:
    """The position of a schema, as far as it restricts its keywords."""

    root: bool = False
    in_metadata: bool = False
    no_defaults: str = ""
    """Why a default is forbidden here; empty if it is allowed."""


def _check_keywords(schema: JSONObject, path: str, context: _Context, errors: list[FieldError]) -> None:
    if schema.get("default") is not None and context.no_defaults:
        errors.append(forbidden(f"{path}.default", f"must not be set {context.no_defaults}"))
    if context.in_metadata and schema.get("x-kubernetes-embedded-resource"):
        errors.append(forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta"))
    errors.extend(keyword_errors(schema, path))
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(f"{path}.uniqueItems", text))
    if schema.get("additionalProperties") not in (None, True) and schema.get("properties"):
        text = "additionalProperties and properties are mutual exclusive"
        errors.append(forbidden(f"{path}.additionalProperties", text))
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        errors.append(invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined"))
    _check_map_type(schema, path, errors)
    _check_list_type(schema, path, errors)
    _check_children(schema, path, context, errors)


def _check_children(schema: JSONObject, path: str, context: _Context, errors: list[FieldError]) -> None:
    inner = replace(context, root=False)
    if is_object(values := schema.get("additionalProperties")):
        reason = "inside additionalProperties applying to object metadata" if context.in_metadata else ""
        below = replace(inner, no_defaults=reason or context.no_defaults)
        _check_keywords(values, f"{path}.additionalProperties", below, errors)
    properties: JSONObject = schema.get("properties") or {}
    for key, child in properties.items():
        below = inner
        if key in _OBJECT_FIELDS and (context.root or schema.get("x-kubernetes-embedded-resource")):
            reason = f"in top-level {key}" if context.root else context.no_defaults
            below = replace(inner, in_metadata=True, no_defaults=reason)
        _check_keywords(child, f"{path}.properties[{key}]", below, errors)
    for key in ("items", "not"):
        if is_object(child := schema.get(key)):
            _check_keywords(child, f"{path}.{key}", inner, errors)
    for place, part in _combined(schema, path, ("allOf", "oneOf", "anyOf")):
        _check_keywords(part, place, inner, errors)


def _check_map_type(schema: JSONObject, path: str, errors: list[FieldError]) -> None:
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is None:
        return
    _check_is(schema, "object", "must be object if x-kubernetes-map-type is specified", path, errors)
    if map_type not in ("atomic", "granular"):
        errors.append(not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular")))


def _check_is(schema: JSONObject, kind: str, text: str, path: str, errors: list[FieldError]) -> None:
    given = schema.get("type", "")
    if given != kind:
        errors.append(invalid(f"{path}.type", given, text) if given else required(f"{path}.type", text))


def _check_list_type(schema: JSONObject, path: str, errors: list[FieldError]) -> None:
    list_type = schema.get("x-kubernetes-list-type")
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
    if keys and list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        place = f"{path}.x-kubernetes-list-type"
        errors.append(required(place, text) if list_type is None else invalid(place, list_type, text))
    if list_type is None:
        return
    _check_is(schema, "array", "must be array if x-kubernetes-list-type is specified", path, errors)
    if list_type not in ("atomic", "set", "map"):
        errors.append(not_supported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map")))
    items = schema.get("items")
    if list_type in ("set", "map") and is_object(items) and items.get("nullable"):
        text = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        errors.append(forbidden(f"{path}.items.nullable", text))
    if list_type == "set" and is_object(items):
        _check_set_items(items, f"{path}.items", errors)
    elif list_type == "map":
        _check_map_items(items, keys, path, errors)


def _check_set_items(items: JSONObject, path: str, errors: list[FieldError]) -> None:
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    inner = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and inner not in (None, "atomic"):
        errors.append(invalid(f"{path}.x-kubernetes-list-type", inner, text))
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        errors.append(invalid(f"{path}.x-kubernetes-map-type", items.get("x-kubernetes-map-type"), text))


def _check_map_items(items: object, keys: list[str], path: str, errors: list[FieldError]) -> None:
    if not keys:
        text = "must not be empty if x-kubernetes-list-type is map"
        errors.append(required(f"{path}.x-kubernetes-list-map-keys", text))
    if not is_object(items):
        errors.append(required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map"))
        return
    if items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        errors.append(invalid(f"{path}.items.type", items.get("type", ""), text))
        return
    for key in keys:
        _check_map_key(items, key, keys, path, errors)
    if len(set(keys)) != len(keys):
        errors.append(invalid(f"{path}.x-kubernetes-list-map-keys", keys, "must not contain duplicate entries"))


def _check_map_key(items: JSONObject, key: str, keys: list[str], path: str, errors: list[FieldError]) -> None:
    place = f"{path}.items.properties[{key}]"
    properties: JSONObject = items.get("properties") or {}
    schema = properties.get(key)
    if not is_object(schema):
        text = "entries must all be names of item properties"
        errors.append(invalid(f"{path}.x-kubernetes-list-map-keys", keys, text))
        return
    why = "this property is in x-kubernetes-list-map-keys, so it"
    if schema.get("type") in ("array", "object"):
        text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
        errors.append(invalid(f"{place}.type", items.get("type"), text))
    if key not in (items.get("required") or ()) and "default" not in schema:
        errors.append(required(f"{place}.default", f"{why} must have a default or be a required property"))
    if schema.get("nullable"):
        errors.append(forbidden(f"{place}.nullable", f"{why} cannot be nullable"))


# Structural schemas

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


def structural_errors(schema: JSONObject, path: str) -> list[FieldError]:
    """Return why `schema`, the root of a kind, is not structural, sorted as the API server does."""
    errors: list[FieldError] = []
    _check_node(schema, "root", path, errors)
    _check_complete(schema, schema, path, path, errors)
    return sorted(errors, key=str)


def _check_node(schema: JSONObject, level: _Level, path: str, errors: list[FieldError]) -> None:
    items, values = schema.get("items"), schema.get("additionalProperties")
    properties: JSONObject = schema.get("properties") or {}
    if schema.get("type") == "array" and items is None:
        errors.append(required(f"{path}.items", "must be specified"))
    if is_object(items):
        _check_node(items, "item", f"{path}.items", errors)
    for key, child in properties.items():
        if key == "metadata" and level == "root":
            _check_root_metadata(child, f"{path}.properties[{key}]", errors)
        else:
            _check_node(child, "field", f"{path}.properties[{key}]", errors)
    if values is not None and level == "root":
        errors.append(forbidden(f"{path}.additionalProperties", "must not be used at the root"))
    if is_object(values):
        _check_node(values, "field", f"{path}.additionalProperties", errors)
    _check_type(schema, level, path, errors)
    _check_extensions(schema, path, errors)
    if level == "root" or schema.get("x-kubernetes-embedded-resource"):
        _check_object_fields(properties, path, errors)
    _check_values(schema, path, errors, skip=_int_or_string_part(schema))


def _check_type(schema: JSONObject, level: _Level, path: str, errors: list[FieldError]) -> None:
    kind = schema.get("type", "")
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("x-kubernetes-embedded-resource") and kind != "object":
        _check_is(schema, "object", "must be object if x-kubernetes-embedded-resource is true", path, errors)
    elif not kind and not free:
        errors.append(required(f"{path}.type", _NO_TYPE[level]))
    if level == "root" and kind and kind != "object":
        errors.append(invalid(f"{path}.type", kind, "must be object at the root"))


def _check_extensions(schema: JSONObject, path: str, errors: list[FieldError]) -> None:
    embedded = schema.get("x-kubernetes-embedded-resource")
    preserve = schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("x-kubernetes-int-or-string"):
        text = "must be false if x-kubernetes-int-or-string is true"
        if preserve:
            errors.append(invalid(f"{path}.x-kubernetes-preserve-unknown-fields", True, text))
        if embedded:
            errors.append(invalid(f"{path}.x-kubernetes-embedded-resource", True, text))
    if embedded and schema.get("additionalProperties") is not None:
        text = "must not be used if x-kubernetes-embedded-resource is set"
        errors.append(forbidden(f"{path}.additionalProperties", text))
    if embedded and not preserve and not schema.get("properties"):
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        errors.append(required(f"{path}.properties", text))


def _check_object_fields(properties: JSONObject, path: str, errors: list[FieldError]) -> None:
    for key, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if key in properties and properties[key].get("type", "") != wanted:
            place = f"{path}.properties[{key}].type"
            errors.append(invalid(place, properties[key].get("type", ""), f"must be {wanted}"))


def _check_root_metadata(schema: JSONObject, path: str, errors: list[FieldError]) -> None:
    if not schema.keys() <= _METADATA_FIELDS or not (schema.get("properties") or {}).keys() <= {"name", "generateName"}:
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        errors.append(forbidden(path, text))


def _int_or_string_part(schema: JSONObject) -> str:
    """Return the combination in which a schema may repeat that it is an integer or a string."""
    if schema.get("anyOf") == _INT_OR_STRING:
        return "anyOf"
    every = schema.get("allOf")
    return "allOf" if is_array(every) and every and every[0].get("anyOf") == _INT_OR_STRING else ""


def _check_values(schema: JSONObject, path: str, errors: list[FieldError], *, skip: str = "") -> None:
    for junctor in ("anyOf", "allOf", "oneOf"):
        parts: JSONArray = schema.get(junctor) or []
        if junctor == "anyOf" == skip:
            continue
        for index, part in enumerate(parts):
            inner = "anyOf" if junctor == "allOf" == skip and index == 0 else ""
            _check_combined(part, f"{path}.{junctor}[{index}]", errors, skip=inner)
    if is_object(unwanted := schema.get("not")):
        _check_combined(unwanted, f"{path}.not", errors)
    if pattern := schema.get("pattern"):
        try:
            compile_pattern(pattern)
        except ValueError as error:
            text = f"must be a valid regular expression, but isn't: error parsing regexp: {error}"
            errors.append(invalid(f"{path}.pattern", pattern, text))


def _check_combined(schema: JSONObject, path: str, errors: list[FieldError], *, skip: str = "") -> None:
    """Check a schema inside a combination: it may restrict values, but not declare them."""
    _check_values(schema, path, errors, skip=skip)
    if is_object(items := schema.get("items")):
        _check_combined(items, f"{path}.items", errors)
    properties: JSONObject = schema.get("properties") or {}
    for key, child in properties.items():
        _check_combined(child, f"{path}.properties[{key}]", errors)
    errors.extend(forbidden(f"{path}.{key}", text) for key, text in _FORBIDDEN_INSIDE.items() if schema.get(key))
    if "metadata" in properties:
        errors.append(forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context"))


def _check_complete(judging: JSONObject, shape: JSONObject, at: str, judged_in: str, errors: list[FieldError]) -> None:
    """Check that everything restricted inside a combination is declared outside of it."""
    if is_object(unwanted := judging.get("not")):
        _check_counterpart(unwanted, shape, at, f"{judged_in}.not", errors)
    for place, part in _combined(judging, judged_in):
        _check_counterpart(part, shape, at, place, errors)


def _check_counterpart(
    part: JSONObject, shape: JSONObject | None, at: str, judged_in: str, errors: list[FieldError]
) -> None:
    if shape is None:
        errors.append(required(at, f"because it is defined in {judged_in}"))
        return
    _check_complete(part, shape, at, judged_in, errors)
    if is_object(items := part.get("items")):
        _check_counterpart(items, shape.get("items"), f"{at}.items", f"{judged_in}.items", errors)
    properties: JSONObject = part.get("properties") or {}
    shaped: JSONObject = shape.get("properties") or {}
    for key, child in properties.items():
        inside = f".properties[{key}]"
        _check_counterpart(child, shaped.get(key), at + inside, judged_in + inside, errors)
