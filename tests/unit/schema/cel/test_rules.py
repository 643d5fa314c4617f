"""Rules of custom kinds: where they are evaluated, what they compare, and what is reported."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubewright_controlplane.schema.structural.check import check
from kubewright_controlplane.schema.structural.schema import Schema

TEXT: dict[str, Any] = {"type": "string", "maxLength": 20}
WHOLE: dict[str, Any] = {"type": "integer"}


def schema_of(properties: dict[str, Any], *rules: dict[str, Any]) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": list(rules)}
    return {"type": "object", "properties": {"spec": spec}}


def told(schema: dict[str, Any], spec: Any, old: Any = None) -> list[str]:
    assert check(schema) == []
    compiled = Schema.from_crd(schema)
    obj, before = {"spec": spec}, {"spec": old} if old is not None else None
    kept = copy.deepcopy((obj, before))
    faults = [str(each) for each in compiled.validate(obj, before)]
    assert (obj, before) == kept
    return faults


def refused(schema: dict[str, Any]) -> list[str]:
    return [str(each).replace("openAPIV3Schema.properties[spec]", "SPEC") for each in check(schema)]


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ({"rule": "self.n != 4"}, "spec: Invalid value: failed rule: self.n != 4"),
        ({"rule": "self.n != 4", "message": "no four"}, "spec: Invalid value: no four"),
        ({"rule": "self.n != 4", "messageExpression": "'got ' + self.s"}, "spec: Invalid value: got four"),
        ({"rule": "self.n != 4", "reason": "FieldValueForbidden", "message": "no"}, "spec: Forbidden: no"),
        (
            {"rule": "self.n != 4", "reason": "FieldValueRequired", "fieldPath": ".n"},
            "spec.n: Required value: failed rule: self.n != 4",
        ),
        (
            {"rule": "self.m['a'] == 'x'"},
            "spec: Invalid value: \"object\": no such key: a evaluating rule: self.m['a'] == 'x'",
        ),
        (
            {"rule": "self.port < 5", "message": "small"},
            "spec: Invalid value: \"object\": 'no such overload': call arguments did not match a supported operator, "
            "function or macro signature for rule: small",
        ),
    ],
)
def test_a_broken_rule_is_reported(rule: dict[str, Any], fault: str) -> None:
    properties = {
        "n": WHOLE,
        "s": TEXT,
        "m": {"type": "object", "maxProperties": 5, "additionalProperties": TEXT},
        "port": {"x-kubernetes-int-or-string": True},
    }
    assert told(schema_of(properties, rule), {"n": 4, "s": "four", "m": {}, "port": "http"}) == [fault]


def test_rules_apply_to_values_of_any_type() -> None:
    ruled = {**WHOLE, "x-kubernetes-validations": [{"rule": "self > 0"}]}
    properties = {
        "n": ruled,
        "list": {"type": "array", "maxItems": 5, "items": ruled},
        "map": {"type": "object", "maxProperties": 5, "additionalProperties": ruled},
    }
    assert told(schema_of(properties, {"rule": "true"}), {"n": 0, "list": [1, -1], "map": {"a.b": -2, "c": 1}}) == [
        "spec.n: Invalid value: 0: failed rule: self > 0",
        "spec.list[1]: Invalid value: -1: failed rule: self > 0",
        "spec.map[a.b]: Invalid value: -2: failed rule: self > 0",
    ]


def test_the_root_can_access_its_name() -> None:
    schema = {"type": "object", "x-kubernetes-validations": [{"rule": "self.metadata.name.startsWith('web')"}]}
    assert check(schema) == []
    compiled = Schema.from_crd(schema)
    assert compiled.validate({"metadata": {"name": "web-1"}}) == []
    assert len(compiled.validate({"metadata": {"name": "db"}})) == 1


def test_formats_become_cel_types() -> None:
    properties = {
        "at": {"type": "string", "format": "date-time"},
        "span": {"type": "string", "format": "duration"},
        "data": {"type": "string", "format": "byte", "maxLength": 20},
        "ratio": {"type": "number"},
    }
    rule = {"rule": "self.at.getDate() == 1 && self.span == duration('1h') && self.data == b'hi' && self.ratio < 2.5"}
    assert (
        told(schema_of(properties, rule), {"at": "2026-01-01T00:00:00Z", "span": "60m", "data": "aGk=", "ratio": 1})
        == []
    )


def test_names_that_are_not_identifiers_are_escaped() -> None:
    properties = {"b-c": TEXT, "namespace": TEXT, "d.e": TEXT}
    rule = {"rule": "self.b__dash__c == self.__namespace__ && self.d__dot__e == 'x'"}
    assert told(schema_of(properties, rule), {"b-c": "a", "namespace": "a", "d.e": "x"}) == []


def test_a_null_is_absent_from_its_object() -> None:
    properties = {"n": {**TEXT, "nullable": True}}
    assert told(schema_of(properties, {"rule": "!has(self.n) && self.?n.orValue('z') == 'z'"}), {"n": None}) == []


def test_sets_are_equal_in_any_order() -> None:
    properties = {"set": {"type": "array", "maxItems": 5, "items": TEXT, "x-kubernetes-list-type": "set"}}
    assert told(schema_of(properties, {"rule": "self.set == ['b', 'a']"}), {"set": ["a", "b"]}) == []


def test_a_transition_rule_is_evaluated_only_on_updates() -> None:
    schema = schema_of({"n": WHOLE}, {"rule": "self.n >= oldSelf.n", "message": "may not shrink"})
    assert told(schema, {"n": 1}) == []
    assert told(schema, {"n": 2}, {"n": 1}) == []
    assert told(schema, {"n": 1}, {"n": 2}) == ["spec: Invalid value: may not shrink"]


def test_a_rule_with_optional_old_self_is_evaluated_on_create() -> None:
    rule = {"rule": "oldSelf.hasValue() || self.n == 0", "optionalOldSelf": True, "message": "starts at zero"}
    schema = schema_of({"n": WHOLE}, rule)
    assert told(schema, {"n": 1}) == ["spec: Invalid value: starts at zero"]
    assert told(schema, {"n": 1}, {"n": 0}) == []


def test_items_of_a_map_list_are_matched_by_their_keys() -> None:
    item = {
        "type": "object",
        "required": ["k"],
        "properties": {"k": TEXT, "v": WHOLE},
        "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "v shrinks"}],
    }
    listed = {"type": "array", "maxItems": 5, "items": item}
    keyed = {**listed, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    before = {"list": [{"k": "a", "v": 1}, {"k": "b", "v": 9}]}
    after = {"list": [{"k": "b", "v": 2}, {"k": "a", "v": 1}, {"k": "c", "v": 0}]}
    assert told(schema_of({"list": keyed}, {"rule": "true"}), after, before) == [
        "spec.list[0]: Invalid value: v shrinks"
    ]
    (fault,) = refused(schema_of({"list": listed}, {"rule": "true"}))
    assert fault.endswith(
        "oldSelf cannot be used on the uncorrelatable portion of the schema within SPEC.properties[list]"
    )


def test_faults_in_unchanged_values_are_not_reported() -> None:
    properties = {"a": {**WHOLE, "x-kubernetes-validations": [{"rule": "self < 5"}]}, "b": WHOLE}
    schema = schema_of(properties, {"rule": "true"})
    assert told(schema, {"a": 9, "b": 1}, {"a": 9, "b": 0}) == []
    assert told(schema, {"a": 8, "b": 1}, {"a": 9, "b": 0}) == ["spec.a: Invalid value: 8: failed rule: self < 5"]


def test_rules_are_not_evaluated_on_values_of_the_wrong_type() -> None:
    faults = told(schema_of({"n": WHOLE}, {"rule": "self.n < 5"}), {"n": "x"})
    assert faults[1] == (
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation"
    )


def test_a_rule_that_exceeds_the_budget_stops_the_evaluation() -> None:
    properties = {"list": {"type": "array", "maxItems": 400, "items": WHOLE}}
    schema = schema_of(properties, {"rule": "self.list.all(x, self.list.all(y, x + y >= 0))"})
    (fault,) = told(schema, {"list": [1] * 400})
    assert "actual cost limit exceeded" in fault


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ({"rule": ""}, "SPEC.x-kubernetes-validations[0].rule: Required value: rule is not specified"),
        ({"rule": "self.n"}, "cel expression must evaluate to a bool"),
        (
            {"rule": "self.nope"},
            "compilation failed: ERROR: <input>:1:5: undefined field 'nope'\n | self.nope\n | ....^",
        ),
        ({"rule": "true", "messageExpression": "self.n"}, "messageExpression must evaluate to a string"),
        (
            {"rule": "true", "reason": "Because"},
            'Unsupported value: "Because": supported values: "FieldValueDuplicate"',
        ),
        ({"rule": "true", "fieldPath": ".nope"}, 'fieldPath: Invalid value: ".nope": must be a valid path'),
        ({"rule": "true", "message": "a\nb"}, "must not contain line breaks"),
        ({"rule": "true\n&& true"}, "message must be specified if rule contains line breaks"),
        ({"rule": "true", "optionalOldSelf": True}, "may not be set if oldSelf is not used in rule"),
        (
            {"rule": "self.free.all(x, self.free.all(y, x == y))"},
            "estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding "
            "maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)",
        ),
    ],
)
def test_an_invalid_rule_is_a_fault_of_its_crd(rule: dict[str, Any], fault: str) -> None:
    properties = {"n": WHOLE, "free": {"type": "array", "items": {"type": "string"}}}
    (first, *_) = refused(schema_of(properties, rule))
    assert fault in first


def test_the_cost_of_a_long_chain_of_optional_values_is_estimated_in_linear_time() -> None:
    rule = {"rule": "optional.of(self.a)" + ".optMap(x, x)" * 40 + ".hasValue()"}
    (first, *_) = refused(schema_of({"a": TEXT}, rule))
    assert "estimated rule cost exceeds budget" in first


def test_rules_with_an_excessive_total_cost_are_rejected() -> None:
    properties = {"list": {"type": "array", "maxItems": 1000, "items": WHOLE}}
    rule = {"rule": "self.list.all(x, self.list.all(y, x + y >= 0))"}
    faults = refused(schema_of(properties, *[rule] * 20))
    assert "openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total" in faults[-1]
