"""Changes of a schema that break users, and those that do not."""

from __future__ import annotations

import pytest

from kubewright.machinery.json import JSONObject
from kubewright_cli.manifests.schema_changes import SchemaChange, schema_changes


def spec(**properties: JSONObject) -> JSONObject:
    return {"type": "object", "properties": properties}


def changes(released: JSONObject, current: JSONObject) -> list[SchemaChange]:
    return list(schema_changes(spec(field=released), spec(field=current)))


STRING = {"type": "string"}
NUMBER = {"type": "integer"}
LIST: JSONObject = {"type": "array", "items": STRING}
MAP: JSONObject = {"type": "object", "additionalProperties": STRING}
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}
RULE = [{"rule": "self > 0"}]

BREAKING: list[tuple[JSONObject, JSONObject, str]] = [
    (STRING, NUMBER, "type changed from string to integer"),
    (NUMBER, INT_OR_STRING, "type changed from integer to int-or-string"),
    (NUMBER, NUMBER | {"minimum": 1}, "minimum 1 added"),
    (NUMBER | {"minimum": 1}, NUMBER | {"minimum": 2}, "minimum changed from 1 to 2"),
    (NUMBER | {"maximum": 9}, NUMBER | {"maximum": 8}, "maximum changed from 9 to 8"),
    (
        NUMBER | {"maximum": 9},
        NUMBER | {"maximum": 9, "exclusiveMaximum": True},
        "exclusiveMaximum changed from false to true",
    ),
    (
        NUMBER | {"minimum": 9},
        NUMBER | {"minimum": 9, "exclusiveMinimum": True},
        "exclusiveMinimum changed from false to true",
    ),
    (STRING | {"minLength": 1}, STRING | {"minLength": 2}, "minLength changed from 1 to 2"),
    (STRING | {"maxLength": 5}, STRING | {"maxLength": 4}, "maxLength changed from 5 to 4"),
    (LIST, LIST | {"minItems": 1}, "minItems 1 added"),
    (LIST | {"maxItems": 5}, LIST | {"maxItems": 4}, "maxItems changed from 5 to 4"),
    (MAP, MAP | {"minProperties": 1}, "minProperties 1 added"),
    (MAP | {"maxProperties": 3}, MAP | {"maxProperties": 2}, "maxProperties changed from 3 to 2"),
    (NUMBER | {"multipleOf": 5}, NUMBER | {"multipleOf": 10}, "multipleOf changed from 5 to 10"),
    (NUMBER, NUMBER | {"multipleOf": 2}, "multipleOf 2 added"),
    (STRING, STRING | {"pattern": "^a"}, 'pattern "^a" added'),
    (STRING | {"pattern": "^a"}, STRING | {"pattern": "^b"}, 'pattern changed from "^a" to "^b"'),
    (STRING, STRING | {"format": "date-time"}, 'format "date-time" added'),
    (NUMBER | {"format": "int64"}, NUMBER | {"format": "int32"}, 'format changed from "int64" to "int32"'),
    (STRING, STRING | {"anyOf": [{"maxLength": 3}]}, 'anyOf [{"maxLength": 3}] added'),
    (STRING, STRING | {"enum": ["a"]}, 'enum ["a"] added, any value was valid'),
    (STRING | {"enum": ["a", "b"]}, STRING | {"enum": ["a"]}, 'enum values removed: "b"'),
    (NUMBER | {"default": 1}, NUMBER | {"default": 2}, "default changed from 1 to 2"),
    (NUMBER | {"default": 1}, NUMBER, "default 1 removed"),
    (STRING | {"nullable": True}, STRING, "nullable removed"),
    (ANYTHING, {"type": "object"}, "x-kubernetes-preserve-unknown-fields removed"),
    (MAP, {"type": "object"}, "additionalProperties removed"),
    (
        {"type": "object", "additionalProperties": True},
        MAP,
        "additionalProperties changed from any value to a schema",
    ),
    (
        LIST,
        LIST | {"x-kubernetes-list-type": "set"},
        'x-kubernetes-list-type changed from "atomic" to "set"',
    ),
    (
        LIST | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
        LIST | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b"]},
        'x-kubernetes-list-map-keys changed from ["a"] to ["b"]',
    ),
    (
        MAP,
        MAP | {"x-kubernetes-map-type": "atomic"},
        'x-kubernetes-map-type changed from "granular" to "atomic"',
    ),
    (
        ANYTHING,
        ANYTHING | {"x-kubernetes-embedded-resource": True},
        "x-kubernetes-embedded-resource changed from false to true",
    ),
    (NUMBER, NUMBER | {"x-kubernetes-validations": RULE}, 'rule "self > 0" added'),
]

COMPATIBLE: list[tuple[JSONObject, JSONObject]] = [
    (STRING, STRING | {"description": "Another text."}),
    (NUMBER | {"minimum": 1}, NUMBER | {"minimum": 0}),
    (NUMBER | {"minimum": 1, "exclusiveMinimum": True}, NUMBER | {"minimum": 1}),
    (NUMBER | {"maximum": 1}, NUMBER),
    (STRING | {"maxLength": 4, "minLength": 2}, STRING | {"maxLength": 5, "minLength": 1}),
    (NUMBER | {"multipleOf": 10}, NUMBER | {"multipleOf": 5}),
    ({"type": "number", "multipleOf": 0.3}, {"type": "number", "multipleOf": 0.1}),
    (STRING | {"pattern": "^a"}, STRING),
    (NUMBER | {"format": "int32"}, NUMBER | {"format": "int64"}),
    (STRING | {"enum": ["a"]}, STRING | {"enum": ["a", "b"]}),
    (STRING | {"enum": ["a"]}, STRING),
    (NUMBER, NUMBER | {"default": 1}),
    (STRING, STRING | {"nullable": True}),
    ({"type": "object"}, ANYTHING),
    (spec(a=STRING), MAP),
    (spec(a=STRING), spec(a=STRING, b=NUMBER)),
    (spec(a=STRING), ANYTHING),
    (LIST, LIST | {"x-kubernetes-list-type": "atomic"}),
    (
        LIST | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"]},
        LIST | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b", "a"]},
    ),
    (NUMBER | {"x-kubernetes-validations": RULE}, NUMBER),
    (NUMBER | {"x-kubernetes-validations": RULE}, NUMBER | {"x-kubernetes-validations": [{**RULE[0], "message": "m"}]}),
]


@pytest.mark.parametrize(("released", "current", "expected"), BREAKING, ids=[each[2] for each in BREAKING])
def test_a_change_that_breaks_users_is_reported(released: JSONObject, current: JSONObject, expected: str) -> None:
    found = changes(released, current)
    assert [(each.path, each.change) for each in found if "list-map-keys" in each.change or len(found) == 1] == [
        ("field", expected)
    ]
    assert all(each.reason and each.remedy for each in found)


@pytest.mark.parametrize(("released", "current"), COMPATIBLE)
def test_a_compatible_change_is_not_reported(released: JSONObject, current: JSONObject) -> None:
    assert changes(released, current) == []


def test_removed_fields_are_found_in_lists_and_maps() -> None:
    released = spec(
        ports={"type": "array", "items": spec(name=STRING, number=NUMBER)},
        pools={"type": "object", "additionalProperties": spec(size=NUMBER)},
    )
    current = spec(
        ports={"type": "array", "items": spec(number=NUMBER)},
        pools={"type": "object", "additionalProperties": spec()},
    )
    found = [(each.path, each.change) for each in schema_changes(released, current)]
    assert found == [("ports[].name", "field removed"), ("pools[*].size", "field removed")]


def test_a_new_required_field_needs_a_default() -> None:
    required = {"required": ["size"]}
    (found,) = schema_changes(spec(), spec(size=NUMBER) | required)
    assert (found.path, found.change) == ("size", "field is required now")
    (found,) = schema_changes(spec(size=NUMBER), spec(size=NUMBER) | required)
    assert found.remedy == "make it optional, or give it a default"
    assert list(schema_changes(spec(), spec(size=NUMBER | {"default": 1}) | required)) == []
    assert list(schema_changes(spec(size=NUMBER) | required, spec(size=NUMBER))) == []
    assert list(schema_changes(spec(), spec(part=spec(size=NUMBER) | required))) == []


def test_a_rule_says_whether_ratcheting_helps() -> None:
    plain, transition = (
        changes(NUMBER, NUMBER | {"x-kubernetes-validations": [{"rule": rule}]})[0].reason
        for rule in ("self > 0", "self >= oldSelf")
    )
    assert "only while the value stays as it is (ratcheting)" in plain
    assert "no ratcheting" in transition


def test_a_long_value_is_cut() -> None:
    (found,) = changes(STRING, STRING | {"pattern": "a" * 500})
    assert len(found.change) < 120
