"""Expressions that describe changes of objects, and the limits of what an expression may cost."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.cel.code import Meter
from kubewright.cel.expression import CheckedExpression
from kubewright.cel.syntax import CompileError
from kubewright.cel.types import DYN
from kubewright.cel.values import CostExceeded, EvaluationError

LIMIT = 1_000_000
CANCELLED = "operation cancelled: actual cost limit exceeded"


def compiled(source: str) -> CheckedExpression:
    return CheckedExpression(source, {"object": DYN}, patches=True)


def value_of(source: str, obj: Any = None) -> Any:
    value, _ = compiled(source).program.evaluate([obj], LIMIT)
    return value


def test_an_object_is_constructed_from_its_fields() -> None:
    source = "Object{spec: Object.spec{size: object.n + 1, ?gone: optional.none(), ?here: object.?n}}"
    expression = compiled(source)
    assert expression.type.declared_name == "Object"
    value, _ = expression.program.evaluate([{"n": 1}], LIMIT)
    assert value == {"spec": {"size": 2, "here": 1}}
    assert (value.type, value["spec"].type) == ("Object", "Object.spec")


def test_fields_of_a_constructed_object_can_be_read() -> None:
    assert value_of("Object{spec: Object.spec{size: 3}}.spec.size") == 3
    assert value_of("has(Object{a: 1}.a) && !has(Object{a: 1}.b)") is True
    assert value_of("Object{a: 1} == Object{a: 1} && Object{a: 1} != Object{a: 2}") is True


@pytest.mark.parametrize(
    ("source", "type"),
    [
        ("[JSONPatch{op: 'remove', path: '/a'}]", "list(JSONPatch)"),
        ("true ? [] : [JSONPatch{op: 'x'}]", "list(JSONPatch)"),
        ("[JSONPatch{op: 'x'}] + []", "list(JSONPatch)"),
        ("[1, 2].map(x, JSONPatch{op: 'add', value: x})", "list(JSONPatch)"),
        ("[JSONPatch{}][0].value", "dyn"),
        ("[]", "list(dyn)"),
        ("[[], ['a']]", "list(list(string))"),
        ("true ? {} : {'a': 1}", "map(string, int)"),
        ("true ? Object{} : object", "dyn"),
    ],
)
def test_types_are_inferred(source: str, type: str) -> None:
    assert compiled(source).type.declared_name == type


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("Nothing{}", "1:8: undeclared reference to 'Nothing' (in container '')"),
        ("JSONPatch{op: 1}", "1:13: expected type of field 'op' is 'string' but provided type is 'int'"),
        ("JSONPatch{nope: 1}", "1:15: expected type of field 'nope' is '' but provided type is 'int'"),
        ("Object{?a: 1}", "1:12: expected type 'optional_type(int)' but found 'int'"),
        ("Object{'a': 1}", "1:8: Syntax error: mismatched input ''a'' expecting {'}', ',', '?', IDENTIFIER"),
        ("object.", "1:8: Syntax error: no viable alternative at input '.'"),
    ],
)
def test_faults_are_worded_like_those_of_a_real_server(source: str, fault: str) -> None:
    with pytest.raises(CompileError) as rejected:
        compiled(source)
    assert str(rejected.value).startswith(f"ERROR: <input>:{fault}")


def test_changes_can_only_be_described_where_they_are_wanted() -> None:
    with pytest.raises(CompileError, match="undeclared reference to 'Object'"):
        CheckedExpression("Object{}", {})


def test_keys_are_escaped_for_json_pointers() -> None:
    assert value_of("jsonpatch.escapeKey('k8s.io/my~label')") == "k8s.io~1my~0label"
    with pytest.raises(EvaluationError, match="no such overload"):
        value_of("jsonpatch.escapeKey(object.data)", {"data": {"a": "b"}})


def test_reserved_words_name_fields() -> None:
    assert value_of("object.metadata.namespace == 'x' && object.for == 1", {"metadata": {"namespace": "x"}, "for": 1})
    with pytest.raises(CompileError, match="reserved identifier: namespace"):
        compiled("namespace == 'x'")


@pytest.mark.parametrize(
    "source",
    [
        "object.text.replace('a', object.text)",
        "[object.text, object.text].join(object.text.replace('a', 'aaaaaaaaaa').replace('a', 'aaaaaaaaaa'))",
        "object.items.distinct()",
        "sets.contains(object.items, object.items)",
        "object.items.all(x, object.items.all(y, y == y))",
        "object.items.all(x, object == object)",
        "object.items.all(x, object.text.contains('b') || true)",
        "object.items.all(x, !'a'.matches('b' + string(x)))",
    ],
)
def test_an_expression_that_would_take_long_is_stopped_by_its_cost(source: str) -> None:
    with pytest.raises(CostExceeded) as stopped:
        value_of(source, {"text": "a" * 100_000, "items": list(range(2000))})
    assert str(stopped.value) == CANCELLED


def test_a_meter_stops_only_what_is_expensive() -> None:
    obj = {"items": list(range(400))}
    meter = Meter(0)  # no time at all
    cheap = compiled("object.items.all(x, x >= 0)").program
    assert cheap.attempt([obj], LIMIT, meter).value is True
    expensive = compiled("object.items.all(x, object.items.all(y, x + y >= 0))").program
    outcome = expensive.attempt([obj], LIMIT, meter)
    assert outcome.error == "operation cancelled: it took more than 0 ms"
    assert cheap.attempt([obj], LIMIT, meter).error == outcome.error
    assert expensive.attempt([obj], 2 * LIMIT, Meter(60)).value is True


def test_a_metered_evaluation_has_its_cost() -> None:
    program = compiled("object.items.all(x, x >= 0)").program
    obj = {"items": list(range(9000))}
    _, left = program.evaluate([obj], LIMIT)
    assert program.attempt([obj], LIMIT, Meter(60)).cost == LIMIT - left
    outcome = program.attempt([obj], 20_000, Meter(60))
    assert (outcome.error, outcome.cost > 20_000) == (CANCELLED, True)


def test_an_evaluation_within_another_keeps_the_budgets_apart() -> None:
    meter = Meter(60)
    inner = compiled("object.items.all(x, x >= 0)").program

    class Lazy(dict[str, Any]):
        def __missing__(self, name: str) -> Any:
            return inner.attempt([{"items": list(range(9000))}], LIMIT, meter).value

    outer = compiled("object.items.all(x, x >= 0) && object.lazy.all && object.items.all(x, x >= 0)").program
    outcome = outer.attempt([Lazy(items=list(range(9000)), lazy=Lazy())], LIMIT, meter)
    assert outcome.value is True
    assert outcome.cost == 2 * inner.attempt([{"items": list(range(9000))}], LIMIT, meter).cost
