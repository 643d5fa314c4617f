"""The schemas of all documents as one table, without descriptions, with the defaults that the server applies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from protobuf import Row, message_of

from kubewright.machinery.json import JSONObject

DESCRIPTIVE = ("description", "x-kubernetes-group-version-kind")
SCALARS = ("string", "integer", "number", "boolean")
TEXT_FORMS = ("byte", "date-time", "int-or-string")
"""Formats of values that Go does not store as scalars."""


def merge(documents: Mapping[str, bytes]) -> tuple[JSONObject, dict[str, str]]:
    """Return all schemas by name, and the name of each kind's schema by `apps/v1/Deployment`.

    Raises ValueError if two documents have different schemas of the same name.
    """
    merged: JSONObject = {}
    kinds: dict[str, str] = {}
    for path, document in documents.items():
        for name, schema in json.loads(document).get("components", {}).get("schemas", {}).items():
            for gvk in schema.get("x-kubernetes-group-version-kind", ()):
                key = "/".join(filter(None, (gvk["group"], gvk["version"], gvk["kind"])))
                kinds[key] = name
            bare = _without_descriptions(schema)
            if merged.setdefault(name, bare) != bare:
                raise ValueError(f"{path} has a different schema {name}")
    return dict(sorted(merged.items())), dict(sorted(kinds.items()))


def state_defaults(schemas: JSONObject, observed: Mapping[tuple[str, str], object]) -> None:
    """Set the observed defaults, by schema and field, on the properties."""
    for (name, field), value in sorted(observed.items()):
        schemas[name]["properties"][field]["default"] = value


def state_zeroes(schemas: JSONObject, messages: Mapping[str, list[Row]]) -> None:
    """Set `x-kubewright-zero` on each scalar that Go stores by value.

    Such a field cannot distinguish zero from absent, so a zero that is sent counts as absent. JSON then omits it
    (`omitted`), or always has it (`written`).
    """
    for name, schema in schemas.items():
        occurrences = dict(_occurrences(messages, message_of(name)))
        for field, each in schema.get("properties", {}).items():
            if each.get("type") not in SCALARS or each.get("format") in TEXT_FORMS:
                continue
            if occurrences.get(field) == "":
                each["x-kubewright-zero"] = "omitted"
            elif "default" in each and not each["default"]:
                each["x-kubewright-zero"] = "written"
            if not each.get("default", True):
                del each["default"]


def _occurrences(messages: Mapping[str, list[Row]], message: str) -> Iterator[tuple[str, str]]:
    """Yield how each field of a message occurs, including the fields of inlined messages."""
    for _, field, kind, occurs in messages.get(message, ()):
        if occurs == "+":
            yield from _occurrences(messages, kind)
        else:
            yield field, occurs


def _without_descriptions(schema: JSONObject) -> JSONObject:
    """Return a copy without descriptions and without defaults that are the zero value of a Go struct.

    `{}` on a reference means that Go stores the struct itself, not a pointer to it. The copy has `x-kubewright-inline`
    instead.
    """
    bare: JSONObject = {}
    if schema.get("default") == {} and "allOf" in schema:
        bare["x-kubewright-inline"] = True
    for key, value in schema.items():
        if key in DESCRIPTIVE or (key == "default" and value == {}):
            continue
        if key == "properties":
            bare[key] = {name: _without_descriptions(each) for name, each in value.items()}
        elif key in ("items", "additionalProperties", "not") and isinstance(value, dict):
            bare[key] = {name: each for name, each in _without_descriptions(value).items() if name != "default" or each}
        elif key in ("allOf", "anyOf", "oneOf"):
            bare[key] = [_without_descriptions(each) for each in value]
        else:
            bare[key] = value
    return bare
