"""Custom kinds: pruning, defaults, and validation with the messages of the API server."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.machinery.errors import DecodeError
from kubewright_controlplane.schema.structural.schema import Schema


def of_spec(**properties: Any) -> Schema:
    """Return the schema of a kind whose `spec` has these fields."""
    return Schema.from_crd(
        {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}, "status": OPEN}}
    )


def faults(schema: Schema, spec: Any, old: Any = None) -> list[str]:
    return [str(each) for each in schema.validate({"spec": spec}, {"spec": old} if old is not None else None)]


OPEN: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}


def test_unknown_fields_are_dropped_and_reported() -> None:
    schema = of_spec(name=TEXT, items={"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}})
    obj = {
        "apiVersion": "g/v1",
        "kind": "Foo",
        "metadata": {"name": "x", "labels": {"any": "thing"}, "bogus": 1},
        "spec": {"name": "x", "extra": {"deep": 1}, "items": [{"a": "1", "b": 2}]},
        "more": 1,
    }
    assert sorted(schema.prune(obj)) == ["metadata.bogus", "more", "spec.extra", "spec.items[0].b"]
    assert obj == {
        "apiVersion": "g/v1",
        "kind": "Foo",
        "metadata": {"name": "x", "labels": {"any": "thing"}},
        "spec": {"name": "x", "items": [{"a": "1"}]},
    }


def test_specified_fields_below_preserved_ones_are_pruned() -> None:
    schema = of_spec(free={**OPEN, "properties": {"known": {"type": "object", "properties": {"a": TEXT}}}})
    obj = {"spec": {"free": {"any": [1, {"x": None}], "known": {"a": "1", "b": 2}}}}
    assert schema.prune(obj) == ["spec.free.known.b"]
    assert obj == {"spec": {"free": {"any": [1, {"x": None}], "known": {"a": "1"}}}}


def test_maps_accept_any_key() -> None:
    schema = of_spec(map={"type": "object", "additionalProperties": {"type": "object", "properties": {"a": TEXT}}})
    obj = {"spec": {"map": {"x": {"a": "1", "b": 1}}}}
    assert schema.prune(obj) == ["spec.map.x.b"]


def test_metadata_of_the_wrong_type_is_rejected_as_in_go() -> None:
    with pytest.raises(
        DecodeError, match=r"cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
    ):
        of_spec(name=TEXT).prune({"metadata": {"labels": {"a": 1}}})
    with pytest.raises(DecodeError, match="cannot unmarshal string"):
        of_spec(name=TEXT).prune({"metadata": "x"})


def test_embedded_resources_keep_their_metadata_and_are_validated() -> None:
    schema = of_spec(template={**OPEN, "x-kubernetes-embedded-resource": True})
    obj = {"spec": {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "bogus": 1}, "spec": {}}}}
    assert schema.prune(obj) == ["spec.template.metadata.bogus"]
    assert schema.validate(obj) == []
    bad = {"template": {"apiVersion": "", "metadata": {"name": "a/b", "labels": {"a": "b c"}}}}
    told = faults(schema, bad)
    assert told[0] == 'spec.template.apiVersion: Invalid value: "": must not be empty'
    assert told[1] == "spec.template.kind: Required value"
    assert told[2] == "spec.template.metadata.name: Invalid value: \"a/b\": may not contain '/'"
    assert told[3].startswith('spec.template.metadata.labels: Invalid value: "b c": a valid label must be')


def test_defaults_are_set_at_every_level_and_not_shared() -> None:
    schema = of_spec(
        replicas={"type": "integer", "default": 1},
        nested={
            "type": "object",
            "default": {},
            "properties": {"list": {"type": "array", "items": TEXT, "default": ["a"]}},
        },
        items={
            "type": "array",
            "items": {"type": "object", "properties": {"port": {"type": "integer", "default": 80}}},
        },
    )
    first: dict[str, Any] = {"spec": {"items": [{}, {"port": 1}]}}
    second: dict[str, Any] = {"spec": {}}
    schema.default(first)
    schema.default(second)
    assert first == {"spec": {"replicas": 1, "nested": {"list": ["a"]}, "items": [{"port": 80}, {"port": 1}]}}
    first["spec"]["nested"]["list"].append("b")
    assert second == {"spec": {"replicas": 1, "nested": {"list": ["a"]}}}


def test_a_null_that_is_not_allowed_counts_as_absent() -> None:
    schema = of_spec(
        plain=TEXT,
        defaulted={"type": "string", "default": "x"},
        nullable={"type": "string", "nullable": True, "default": "y"},
        map={"type": "object", "additionalProperties": TEXT},
    )
    obj: dict[str, Any] = {"spec": {"plain": None, "defaulted": None, "nullable": None, "map": {"a": None, "b": "c"}}}
    schema.default(obj)
    assert obj == {"spec": {"defaulted": "x", "nullable": None, "map": {"b": "c"}}}


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        (WHOLE, "string", 'spec.f: Invalid value: "string": spec.f in body must be of type integer: "string"'),
        (TEXT, 5, 'spec.f: Invalid value: "integer": spec.f in body must be of type string: "integer"'),
        (TEXT, None, 'spec.f: Invalid value: "null": spec.f in body must be of type string: "null"'),
        (WHOLE, [], 'spec.f: Invalid value: "array": spec.f in body must be of type integer: "array"'),
        (WHOLE, True, 'spec.f: Invalid value: "boolean": spec.f in body must be of type integer: "boolean"'),
        ({**WHOLE, "maximum": 5}, 7, "spec.f: Invalid value: 7: spec.f in body should be less than or equal to 5"),
        ({**WHOLE, "minimum": 0}, -1, "spec.f: Invalid value: -1: spec.f in body should be greater than or equal to 0"),
        (
            {"type": "number", "maximum": 5.5, "exclusiveMaximum": True},
            5.5,
            "spec.f: Invalid value: 5.5: spec.f in body should be less than 5.5",
        ),
        (
            {"type": "number", "minimum": 5, "exclusiveMinimum": True},
            5,
            "spec.f: Invalid value: 5: spec.f in body should be greater than 5",
        ),
        ({**WHOLE, "multipleOf": 3}, 4, "spec.f: Invalid value: 4: spec.f in body should be a multiple of 3"),
        (
            {**WHOLE, "format": "int32"},
            2**31,
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.f',
        ),
        ({**TEXT, "maxLength": 4}, "abcde", "spec.f: Too long: may not be more than 4 bytes"),
        ({**TEXT, "minLength": 2}, "a", 'spec.f: Invalid value: "a": spec.f in body should be at least 2 chars long'),
        ({**TEXT, "pattern": "^a+$"}, "b", "spec.f: Invalid value: \"b\": spec.f in body should match '^a+$'"),
        (
            {**TEXT, "format": "ipv4"},
            "1.2.3",
            'spec.f: Invalid value: "1.2.3": spec.f in body must be of type ipv4: "1.2.3"',
        ),
        ({**TEXT, "enum": ["red", "blue"]}, "no", 'spec.f: Unsupported value: "no": supported values: "red", "blue"'),
        ({**WHOLE, "enum": [1, 2]}, 3, 'spec.f: Unsupported value: 3: supported values: "1", "2"'),
        (
            {"type": "array", "items": TEXT, "minItems": 1},
            [],
            "spec.f: Invalid value: 0: spec.f in body should have at least 1 items",
        ),
        ({"type": "array", "items": TEXT, "maxItems": 1}, ["a", "b"], "spec.f: Too many: 2: must have at most 1 item"),
        (
            {"type": "array", "items": TEXT},
            [1],
            'spec.f[0]: Invalid value: "integer": spec.f[0] in body must be of type string: "integer"',
        ),
        ({**OPEN, "maxProperties": 1}, {"a": 1, "b": 2}, "spec.f: Too many: 2: must have at most 1 item"),
        (
            {**OPEN, "minProperties": 1},
            {},
            "spec.f: Invalid value: 0: spec.f in body should have at least 1 properties",
        ),
        ({"type": "object", "required": ["a"]}, {}, "spec.f.a: Required value"),
        (
            {"type": "object", "additionalProperties": TEXT},
            {"k": 1},
            'spec.f.k: Invalid value: "integer": spec.f.k in body must be of type string: "integer"',
        ),
        (
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            ["x", "y", "x", "x"],
            'spec.f[2]: Duplicate value: "x"',
        ),
        (
            {
                "type": "array",
                "items": {"type": "object", "properties": {"n": TEXT}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["n"],
            },
            [{"n": "a"}, {"n": "a"}],
            'spec.f[1]: Duplicate value: {"n":"a"}',
        ),
        (
            {"x-kubernetes-int-or-string": True},
            True,
            'spec.f: Invalid value: "boolean": spec.f in body must be of type integer,string: "boolean"',
        ),
    ],
)  # fmt: skip
def test_faults_have_the_messages_of_the_api_server(field: dict[str, Any], value: Any, told: str) -> None:
    assert faults(of_spec(f=field), {"f": value}) == [told]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (WHOLE, 1.0),
        ({"type": "number"}, 1),
        ({**TEXT, "nullable": True}, None),
        ({"x-kubernetes-int-or-string": True}, "50%"),
        ({"x-kubernetes-int-or-string": True}, 5),
        ({**TEXT, "maxLength": 2}, "äö"),
        ({**TEXT, "format": "unheard-of"}, "anything"),
        ({**TEXT, "pattern": "b"}, "abc"),
        ({"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}, ["1", "2"]),
        ({"type": "array", "items": OPEN, "uniqueItems": True}, [{"a": True}, {"a": 1}]),
    ],
)
def test_valid_values_have_no_faults(field: dict[str, Any], value: Any) -> None:
    assert faults(of_spec(f=field), {"f": value}) == []


def test_combined_schemas_report_the_broken_alternative() -> None:
    one_of = Schema.from_crd(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": TEXT, "b": TEXT},
                    "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                }
            },
        }
    )
    assert faults(one_of, {"a": "1"}) == []
    assert faults(one_of, {"a": "1", "b": "2"}) == [
        '<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives'
    ]
    assert faults(one_of, {}) == [
        '<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid',
        "spec.a: Required value",
    ]
    one = of_spec(f={**WHOLE, "anyOf": [{"minimum": 5}, {"maximum": 1}]})
    assert faults(one, {"f": 3})[0] == '<nil>: Invalid value: "": "spec.f" must validate at least one schema (anyOf)'
    both = of_spec(f={**WHOLE, "allOf": [{"minimum": 5}], "not": {"multipleOf": 2}})
    assert faults(both, {"f": 4}) == [
        "spec.f: Invalid value: 4: spec.f in body should be greater than or equal to 5",
        '<nil>: Invalid value: "": "spec.f" must validate all the schemas (allOf). None validated',
        '<nil>: Invalid value: "": "spec.f" must not validate the schema (not)',
    ]


def test_faults_in_unchanged_values_do_not_prevent_an_update() -> None:
    short = {**TEXT, "maxLength": 1}
    schema = of_spec(
        a=short,
        b=short,
        map={
            "type": "array",
            "items": {"type": "object", "properties": {"n": TEXT, "v": short}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["n"],
        },
        list={"type": "array", "items": {"type": "object", "properties": {"v": short}}},
    )
    old = {"a": "long", "b": "x", "map": [{"n": "1", "v": "long"}], "list": [{"v": "long"}]}
    assert faults(schema, {**old, "b": "also"}, old) == ["spec.b: Too long: may not be more than 1 byte"]
    assert faults(schema, {**old, "a": "longer"}, old) == ["spec.a: Too long: may not be more than 1 byte"]
    reordered = {**old, "map": [{"n": "0"}, {"n": "1", "v": "long"}]}
    assert faults(schema, reordered, old) == []
    grown = {**old, "list": [{"v": "long"}, {}]}
    assert faults(schema, grown, old) == ["spec.list[0].v: Too long: may not be more than 1 byte"]
