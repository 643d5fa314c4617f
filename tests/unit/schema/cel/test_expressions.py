"""Expressions have the same results as in a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.cel.checker import Environment, check
from kubewright.cel.compiler import Program
from kubewright.cel.library import functions
from kubewright.cel.parser import parse
from kubewright.cel.syntax import CompileError
from kubewright.cel.types import DYN
from kubewright.cel.values import CostExceeded, EvaluationError


def evaluated(source: str, value: Any = None, *, budget: int = 1_000_000) -> Any:
    """Return the value of `source` if `self` is `value`, whose type is unknown."""
    known = functions()
    expression = parse(source, known.keys())
    check(source, expression, Environment({"self": DYN}, known))
    result, _ = Program(expression, ["self"], known).evaluate([value], budget)
    return result


@pytest.mark.parametrize(
    "source",
    [
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "7 / 2 == 3 && -7 / 2 == -3",
        "-5 % 3 == -2",
        "0x1F == 31",
        "1u + 2u == 3u",
        "1.5 + .5 == 2.0",
        "1e3 == 1000.0",
        "'a' + \"b\" == 'ab'",
        "[1] + [2] == [1, 2]",
        "b'ab' + b'c' == b'abc'",
        r"'\x41\u00e4\n'.size() == 3",
        r"r'\d' == '\\d'",
        "'''a'b''' == \"a'b\"",
        "1 < 2 && 'a' < 'b' && false < true",
        "1 < 2.5 && 2u > 1",
        "dyn(1) == 1.0",
        "dyn(1) != true",
        "type(1) == int && type('') == string",
        "type(timestamp('2026-01-01T00:00:00Z')) == google.protobuf.Timestamp",
        "1 in [1, 2] && !(3 in [1, 2])",
        "'a' in {'a': 1}",
        "{'a': 1}.a == 1 && {'a': 1}['a'] == 1",
        "has({'a': 1}.a) && !has({'a': 1}.b)",
        "[1, 2] == [1, 2] && [1, 2] != [2, 1]",
        "{'a': [1]} == {'a': [1]}",
        "true ? 1 == 1 : 1 / 0 == 1",
        "false && 1 / 0 == 1 ? false : true",
        "true || 1 / 0 == 1",
        "1 / 0 == 1 || true",
        "!(1 / 0 == 1 && false)",
        "'äöü'.size() == 3",
        "size(b'ä') == 2",
        "// a comment\ntrue",
        "[1, 2,].size() == 2",
        "!!true",
        "--1 == 1",
    ],
)
def test_the_language(source: str) -> None:
    assert evaluated(source) is True


@pytest.mark.parametrize(
    "source",
    [
        "[1, 2].all(x, x > 0)",
        "[1, 2].exists(x, x > 1)",
        "[1, 1, 2].exists_one(x, x == 2)",
        "[].all(x, false)",
        "[1, 2, 3].filter(x, x > 1) == [2, 3]",
        "[1, 2].map(x, x * 2) == [2, 4]",
        "[1, 2].map(x, x > 1, x * 2) == [4]",
        "{'a': 1}.all(k, k == 'a')",
        "{'a': 1}.exists(k, v, v == 1)",
        "['a'].all(i, x, i == 0 && x == 'a')",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "[3].transformList(i, x, i + x) == [3]",
        "{'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'}",
        "[1, 2].exists(x, 1 / (x - 1) == 1)",
        "![0, 1].all(x, 1 / x == 2)",
        "[[1, 2], [3]].all(x, x.all(y, y > 0))",
        "[1].map(x, [2].map(y, x + y)[0])[0] == 3",
    ],
)
def test_loops(source: str) -> None:
    assert evaluated(source) is True


@pytest.mark.parametrize(
    "source",
    [
        "'hello'.contains('ell') && 'hello'.startsWith('he') && 'hello'.endsWith('lo')",
        "'abc'.matches('^a.c$')",
        "'hello'.charAt(1) == 'e' && 'a'.charAt(1) == ''",
        "'hello'.indexOf('l') == 2",
        "'hello'.lastIndexOf('l') == 3",
        "'aBc'.lowerAscii() == 'abc' && 'aBc'.upperAscii() == 'ABC'",
        "'aaa'.replace('a', 'b', 2) == 'bba'",
        "'a,b,c'.split(',') == ['a', 'b', 'c']",
        "'a,b,c'.split(',', 2) == ['a', 'b,c']",
        "'hello'.substring(1, 3) == 'el'",
        r"' a\t'.trim() == 'a'",
        "['a', 'b'].join('-') == 'a-b'",
        "'%s %d %.2f %x %b'.format(['a', 5, 1.0, 255, 5]) == 'a 5 1.00 ff 101'",
        "'%s'.format([[1, 2]]) == '[1, 2]'",
        "'x1y22'.find('[0-9]+') == '1'",
        "'x1y22'.findAll('[0-9]+') == ['1', '22']",
        r"strings.quote('a\"b') == '\"a\\\"b\"'",
        "string(1.5) == '1.5' && string(true) == 'true'",
        "int('5') == 5 && int(5.9) == 5",
        "double('1.5') == 1.5",
        "bool('true')",
        "uint(5) == 5u",
        "bytes('a') == b'a' && string(b'a') == 'a'",
    ],
)
def test_strings(source: str) -> None:
    assert evaluated(source) is True


@pytest.mark.parametrize(
    "source",
    [
        "[1, 2].isSorted() && ![2, 1].isSorted()",
        "[1, 2].sum() == 3",
        "[3, 1].min() == 1 && [3, 1].max() == 3",
        "['a', 'b', 'a'].indexOf('a') == 0 && ['a', 'b', 'a'].lastIndexOf('a') == 2",
        "[1, 2, 3].slice(1, 3) == [2, 3]",
        "[1, 1, 2].distinct() == [1, 2]",
        "[1, 2].reverse() == [2, 1]",
        "[2, 1].sort() == [1, 2]",
        "[1, 2].sortBy(x, -x) == [2, 1]",
        "[[1], [2]].flatten() == [1, 2]",
        "lists.range(3) == [0, 1, 2]",
        "[1].first().value() == 1 && ![].last().hasValue()",
        "sets.contains([1, 2], [2])",
        "sets.equivalent([1, 2], [2, 1, 1])",
        "sets.intersects([1], [1, 2]) && !sets.intersects([1], [2])",
        "optional.of(1).orValue(2) == 1 && optional.none().orValue(2) == 2",
        "!optional.ofNonZeroValue('').hasValue()",
        "{'a': 1}.?b.orValue(5) == 5",
        "{'a': 1}[?'a'].hasValue()",
        "{'a': {'b': 'c'}}.?a[?'b'].orValue('') == 'c'",
        "{'a': {'b': 'c'}}.?a['b'].orValue('') == 'c'",
        "{'a': ['b']}.?a[?0].orValue('') == 'b' && {'a': ['b']}.?a[0].orValue('') == 'b'",
        "[?optional.none(), 1] == [1]",
        "{?'a': optional.of(1)} == {'a': 1}",
        "optional.of(1).optMap(x, x + 1).value() == 2",
        "optional.of(1).optFlatMap(x, optional.none()).or(optional.of(7)).value() == 7",
    ],
)
def test_lists_sets_and_optional_values(source: str) -> None:
    assert evaluated(source) is True


@pytest.mark.parametrize(
    "source",
    [
        "quantity('1Gi') == quantity('1024Mi')",
        "quantity('1Gi').isGreaterThan(quantity('1G'))",
        "!isQuantity('x')",
        "quantity('1.5').add(quantity('500m')).asInteger() == 2",
        "sign(quantity('-1')) == -1",
        "quantity('100m').asApproximateFloat() == 0.1",
        "ip('::1').family() == 6 && ip('127.0.0.1').isLoopback()",
        "isIP('1.2.3.4') && !isIP('1.2.3') && !isIP('::ffff:1.2.3.4')",
        "!ip.isCanonical('2001:DB8::1')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3')",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')",
        "string(cidr('10.0.0.0/8')) == '10.0.0.0/8'",
        "url('https://a.example:80/b?c=d').getHost() == 'a.example:80'",
        "url('https://[::1]:80/').getHostname() == '::1'",
        "url('/a?b=c&b=d').getQuery() == {'b': ['c', 'd']}",
        "!isURL('not a url')",
        "semver('1.2.3').minor() == 2",
        "semver('1.0.0').isGreaterThan(semver('1.0.0-rc.1'))",
        "isSemver('v1.2', true) && !isSemver('v1.2')",
        "!format.dns1123Label().validate('web').hasValue()",
        "format.named('uuid').value().validate('x').hasValue()",
        "timestamp('2026-01-02T03:04:05Z').getDayOfWeek() == 5",
        "timestamp('2026-01-02T00:00:00Z').getHours('+02:00') == 2",
        "timestamp('2026-01-02T00:00:00Z') + duration('24h') == timestamp('2026-01-03T00:00:00Z')",
        "duration('90m').getHours() == 1 && duration('1h') > duration('59m')",
        "string(duration('1.5s')) == '1.5s'",
    ],
)
def test_kubernetes_types(source: str) -> None:
    assert evaluated(source) is True


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("{'a': 1}['b']", "no such key: b"),
        ("[1][1]", "index out of bounds: 1"),
        ("self.nope", "no such key: nope"),
        ("int('x')", "type conversion error from 'string' to 'int'"),
        ("int('-9223372036854775809')", "type conversion error from 'string' to 'int'"),
        ("uint('18446744073709551616')", "type conversion error from 'string' to 'uint'"),
        ("int(self.digits)", "type conversion error from 'string' to 'int'"),
        ("uint(self.digits)", "type conversion error from 'string' to 'uint'"),
        ("self.text < 5", "no such overload"),
        ("dyn([1]).startsWith('a')", "no such overload"),
        ("isURL(dyn(1))", "no such overload"),
        ("dyn('a').isSorted()", "no such overload"),
        ("optional.none().value()", "optional.none() dereference"),
        ("{dyn([1]): 2}.size() == 1", "unsupported key type: list"),
        ("{dyn({}): 2}.size() == 1", "unsupported key type: map"),
    ],
)
def test_an_evaluation_error_says_why(source: str, fault: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluated(source, {"text": "a", "digits": "9" * 100_000})
    assert str(failed.value) == fault


def test_numbers_in_texts_may_have_signs_and_leading_zeros() -> None:
    for source in ("int('+0007') == 7", "int('-9223372036854775808') < 0", "int(self.zeros) == 0", "uint('007') == 7u"):
        assert evaluated(source, {"zeros": "0" * 100_000})


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("1 == 'a'", "1:3: found no matching overload for '_==_' applied to '(int, string)'"),
        ("'a'.contains(1)", "1:13: found no matching overload for 'contains' applied to 'string.(int)'"),
        ("nope", "1:1: undeclared reference to 'nope' (in container '')"),
        ("nope(1)", "1:5: undeclared reference to 'nope' (in container '')"),
        ("[1, 'a']", "1:5: expected type 'int' but found 'string'"),
        ("'a'.all(x, true)", "1:1: expression of type 'string' cannot be range of a comprehension"),
        ("[1].all(x, x)", "1:12: expected type 'bool' but found 'int'"),
        ("has(self)", "1:5: invalid argument to has() macro"),
        ("'a'.matches('(')", "1:13: invalid matches argument"),
        ("duration('x')", "1:10: invalid duration argument"),
        ("1 +", "1:4: Syntax error: mismatched input '<EOF>'"),
        ("(1", "1:3: Syntax error: missing ')' at '<EOF>'"),
        ("'abc", "1:1: Syntax error: token recognition error"),
        ("for", "1:1: reserved identifier: for"),
    ],
)
def test_a_compile_error_shows_the_position_of_its_fault(source: str, fault: str) -> None:
    with pytest.raises(CompileError) as refused:
        evaluated(source)
    first, line, mark = str(refused.value).split("\n")[:3]
    assert first.startswith(f"ERROR: <input>:{fault}")
    assert line == f" | {source}"
    assert mark.endswith("^")


def test_the_caret_is_below_the_fault_in_its_own_line() -> None:
    with pytest.raises(CompileError) as refused:
        evaluated("true &&\n  nope")
    assert str(refused.value) == (
        "ERROR: <input>:2:3: undeclared reference to 'nope' (in container '')\n |   nope\n | ..^"
    )


def test_an_expensive_expression_is_stopped() -> None:
    source = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"
    assert evaluated(source, list(range(5))) is True
    with pytest.raises(CostExceeded):
        evaluated(source, list(range(1000)))


def test_a_deeply_nested_expression_is_rejected() -> None:
    with pytest.raises(CompileError, match="recursion limit"):
        evaluated("(" * 1000 + "1" + ")" * 1000)
