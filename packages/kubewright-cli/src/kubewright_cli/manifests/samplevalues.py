"""Values for samples: an object that follows the rules of its schema, as far as they can be followed.

Examples and defaults of the schema come first, then enums, formats, patterns and bounds. If one of several fields must
be set (`ExactlyOneOf`, `AtLeastOneOf`, `oneOf`, `anyOf`), the first one is set. Other CEL rules are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from kubewright.machinery.cel_names import escape
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright_cli.manifests.matching import example_of

_WORD: Final = "example"
_PORT: Final = 80
_FORMATS: Final = {
    "bsonobjectid": "507f1f77bcf86cd799439011",
    "uri": "https://example.com",
    "email": "user@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "cidr": "192.0.2.0/24",
    "mac": "00:00:5e:00:53:01",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "uuid3": "123e4567-e89b-32d3-a456-426614174000",
    "uuid4": "123e4567-e89b-42d3-a456-426614174000",
    "uuid5": "123e4567-e89b-52d3-a456-426614174000",
    "isbn": "0306406152",
    "isbn10": "0306406152",
    "isbn13": "9780306406157",
    "creditcard": "4111111111111111",
    "ssn": "123-45-6789",
    "hexcolor": "#336699",
    "rgbcolor": "rgb(51,102,153)",
    "byte": "ZXhhbXBsZQ==",
    "date": "2026-01-01",
    "duration": "1h",
    "datetime": "2026-01-01T00:00:00Z",
    "k8sshortname": "example",
    "k8slongname": "example.com",
}
"""A value of each format that an API server checks; see `kubewright.machinery.formats`."""
_CANDIDATES: Final = (
    _WORD, "Example", "EXAMPLE", "example.com", "example-1", "example/example", "https://example.com", "0 0 * * *",
    "1h", "10m", "100m", "1Gi", "1", "1.0", "v1", "v1.0.0", "1.0.0", "12:00", "2026-01-01", "192.0.2.1", "192.0.2.0/24",
    "user@example.com", "/example",
)  # fmt: skip
"""Values that read well, tried for a pattern before one is constructed."""
_TEMPLATE: Final = {"metadata", "spec"}
"""The fields of a template of another kind. Its spec is optional in the schema, but always sent by the class."""
_CONTAINER: Final = {"name": _WORD, "image": "nginx"}
_QUANTITY_PATTERN: Final = "[KMGTPE]i"
_UNION: Final = re.compile(r"\[((?:has\(self\.\w+\),?)+)\]\.filter\(x,x==true\)\.size\(\) (?:==|>=) 1")
"""The rule of `ExactlyOneOf` and `AtLeastOneOf`."""


def fields(schema: JSONObject) -> JSONObject:
    """Return the fields of an object that must be set or have a default, in the order of the schema."""
    properties: JSONObject = schema.get("properties") or {}
    chosen = {name for name, each in properties.items() if name in _required(schema) or "default" in each}
    if properties.keys() == _TEMPLATE:
        chosen.add("spec")
    for alternatives in _unions(schema):
        if not any(set(each) <= chosen for each in alternatives):
            chosen |= set(alternatives[0])
    for name in properties:
        if len(chosen) >= schema.get("minProperties", 0):
            break
        chosen.add(name)
    return {name: value(each) for name, each in properties.items() if name in chosen}


def value(schema: JSONObject) -> Any:
    """Return a value that the schema accepts, if one can be found."""
    for stated in ("example", "default"):
        if stated in schema:
            return schema[stated]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string"):
        return "1" if _QUANTITY_PATTERN in schema.get("pattern", "") else _PORT
    match schema.get("type"):
        case "object":
            return _object(schema)
        case "array":
            return _items(schema)
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return False
        case _:
            return _text(schema)


def _required(schema: JSONObject) -> list[str]:
    required: list[str] = schema.get("required") or []
    return required


def _unions(schema: JSONObject) -> Iterator[list[list[str]]]:
    """Yield groups of alternatives, each a list of fields; the fields of one alternative must be set."""
    properties: JSONObject = schema.get("properties") or {}
    wire = {escape(name) or name: name for name in properties}
    for rule in schema.get("x-kubernetes-validations") or ():
        if found := _UNION.fullmatch(rule["rule"].strip()):
            named = re.findall(r"has\(self\.(\w+)\)", found[1])
            yield [[wire[each]] for each in named if each in wire]
    for key in ("oneOf", "anyOf"):
        alternatives = [_required(each) for each in schema.get(key) or ()]
        known = [each for each in alternatives if each and set(each) <= properties.keys()]
        if known:
            yield known


def _object(schema: JSONObject) -> JSONObject:
    if "containers" in _required(schema):
        return fields(schema) | {"containers": [dict(_CONTAINER)]}
    inside = schema.get("additionalProperties")
    if is_object(inside):
        return {f"{_WORD}{number or ''}": value(inside) for number in range(schema.get("minProperties", 0))}
    return fields(schema)


def _items(schema: JSONObject) -> list[Any]:
    items = [value(schema["items"]) for _ in range(schema.get("minItems", 0))]
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return _distinct(items, schema["items"])
        case "map":
            for key in schema.get("x-kubernetes-list-map-keys") or ():
                properties: JSONObject = schema["items"].get("properties") or {}
                about: JSONObject = properties.get(key) or {}
                keys = _distinct([each.get(key, value(about)) for each in items], about)
                items = [{**each, key: chosen} for each, chosen in zip(items, keys, strict=True)]
        case _:
            pass
    return items


def _distinct(values: list[Any], schema: JSONObject) -> list[Any]:
    """Return the same values, made different from each other."""
    choices = schema.get("enum")
    if is_array(choices) and len(choices) >= len(values):
        return choices[: len(values)]
    return [
        each + place if isinstance(each, int) else f"{each}-{place + 1}" if place and isinstance(each, str) else each
        for place, each in enumerate(values)
    ]


def _number(schema: JSONObject) -> float:
    step = schema.get("multipleOf", 1)
    lowest = schema.get("minimum", min(step, schema.get("maximum", step)))
    steps = lowest // step + 1 if schema.get("exclusiveMinimum") else -(-lowest // step)
    number: float = steps * step
    return number


def _text(schema: JSONObject) -> str:
    shortest, longest = schema.get("minLength", 0), schema.get("maxLength")
    if known := _FORMATS.get(str(schema.get("format", "")).replace("-", "")):
        return known
    pattern = schema.get("pattern")
    padded = _WORD.ljust(shortest, "-")[:longest]
    if pattern is None:
        return padded
    found = re.compile(pattern) if _is_python(pattern) else None
    for each in (padded, _WORD.ljust(shortest, "x")[:longest], *_CANDIDATES, example_of(pattern, shortest)):
        if found and found.search(each) and shortest <= len(each) <= (longest or len(each)):
            return each
    return padded


def _is_python(pattern: str) -> bool:
    """Return whether Python's `re` reads the pattern. API servers use RE2, whose syntax differs in rare cases."""
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True
