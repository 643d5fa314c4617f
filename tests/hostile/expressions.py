"""CEL expressions: mostly ones that compile, with the libraries of Kubernetes, and some that are damaged."""

from __future__ import annotations

from random import Random
from typing import Final

_TEXTS: Final = (
    "'a'",
    "''",
    "'é'",
    "r'\\d'",
    "'''a'''",
    "'\\u00e9'",
    "'1'",
    "'1h'",
    "'2026-01-01T00:00:00Z'",
    "'10.0.0.1'",
    "'1Gi'",
    "'https://a/b?c=d'",
    "'1.2.3'",
    "'a,b,c'",
    "'%d'",
    "'\\x00'",
    "b'\\xff'",
)
_INTS: Final = (
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "0x1F",
    "3u",
    "1.5",
    "1e308",
    "2",
    "100000",
)
_FUNCTIONS: Final = (
    "jsonpatch.escapeKey(dyn({any}))",
    "dyn({any}).startsWith({string})",
    "isURL(dyn({any}))",
    "size({string})",
    "int({string})",
    "uint({string})",
    "double({string})",
    "string({int})",
    "bytes({string})",
    "timestamp({string})",
    "duration({string})",
    "type({any})",
    "dyn({any})",
    "bool({string})",
    "quantity({string})",
    "isQuantity({string})",
    "url({string})",
    "isURL({string})",
    "ip({string})",
    "isIP({string})",
    "cidr({string})",
    "semver({string})",
    "isSemver({string})",
    "semver({string}, true)",
    "format.named({string})",
    "sets.contains({list}, {list})",
    "math.greatest({int}, {int})",
    "optional.of({any})",
    "optional.none()",
    "has({self}.a)",
    "has({self}.b.c)",
    "quantity({string}).asInteger()",
    "quantity({string}).add({int})",
    "ip({string}).family()",
    "url({string}).getQuery()",
    "{string}.format([{any}])",
    "{string}.matches({string})",
    "{string}.find({string})",
    "{string}.findAll({string}, {int})",
    "{string}.split({string})",
    "{string}.split({string}, {int})",
    "{string}.replace({string}, {string})",
    "{string}.replace({string}, {string}, {int})",
    "{string}.substring({int})",
    "{string}.substring({int}, {int})",
    "{string}.charAt({int})",
    "{string}.indexOf({string})",
    "{string}.indexOf({string}, {int})",
    "{string}.lastIndexOf({string})",
    "{string}.upperAscii()",
    "{string}.lowerAscii()",
    "{string}.trim()",
    "{string}.startsWith({string})",
    "{string}.contains({string})",
    "{list}.join({string})",
    "{list}.sum()",
    "{list}.min()",
    "{list}.max()",
    "{list}.isSorted()",
    "{list}.indexOf({int})",
    "{list}.lastIndexOf({any})",
    "{list}.all(x, {bool})",
    "{list}.exists(x, x == {any})",
    "{list}.exists_one(x, {bool})",
    "{list}.map(x, {any})",
    "{list}.map(x, {bool}, x)",
    "{list}.filter(x, {bool})",
    "{map}.all(k, v, {bool})",
    "{list}.transformList(i, v, {any})",
    "{map}.transformMap(k, v, {any})",
    "cel.bind(x, {any}, {any})",
    "{list}.map(x, {list}.map(y, {list}.map(z, x)))",
    "{string}.getFullYear()",
    "timestamp({string}).getHours({string})",
    "duration({string}).getSeconds()",
    "duration({string}).getMilliseconds()",
    "jsonpatch.escapeKey({string})",
    "{list}.slice({int}, {int})",
    "{list}.flatten()",
    "{list}.distinct()",
    "{string}.reverse()",
    "strings.quote({string})",
    "base64.encode(b'a')",
    "authorizer.group('').resource('pods').check('get').allowed()",
    "format.dns1123Label().validate({string})",
)
_OPERATORS: Final = ("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in")
_ROOTS: Final = {
    "self": (
        "self",
        "self.a",
        "self.b",
        "self.?a",
        "self.a.b",
        "oldSelf",
        "self[0]",
        "self['a']",
        "self.metadata.name",
        "self.x_dash_y",
        "self.c[0].k",
    ),
    "object": (
        "object",
        "object.data",
        "object.?data",
        "object.metadata.labels",
        "object.metadata.name",
        "oldObject",
        "request",
        "request.userInfo.username",
        "params",
        "namespaceObject.metadata.name",
        "variables.v",
        "object.data['a']",
        "object.data.a",
        "request.operation",
        "request.object.data",
    ),
}
_APPLIED: Final = (
    "Object{{metadata: Object.metadata{{labels: {{{string}: {string}}}}}}}",
    "Object{{data: {{{string}: {string}}}}}",
    "Object{{}}",
    "Object{{nope: {any}}}",
    "Object{{metadata: {any}}}",
    "[JSONPatch{{op: 'add', path: '/data/x', value: {any}}}]",
    "[JSONPatch{{op: 'test', path: {string}, value: {any}}}]",
    "[JSONPatch{{op: {string}, path: '/metadata/labels'}}]",
    "[JSONPatch{{op: 'replace', path: '/metadata/labels/' + jsonpatch.escapeKey({string}), value: {any}}}]",
    "[]",
    "{any}",
)


def expression(rng: Random, kind: str = "bool", root: str = "self") -> str:
    """Return an expression, which mostly has the type `kind`."""
    text = rng.choice(_APPLIED).format(**_operands(rng, root, 3)) if kind == "apply" else _term(rng, kind, root, 0)
    if rng.random() < 0.12:
        at = rng.randrange(len(text) + 1)
        text = rng.choice(
            (
                text[:at],
                text[:at] + rng.choice("()[]{}'\"\\.?:,!-\0é#/ ") + text[at:],
                text[at:] + text[:at],
                f"{'(' * 60}{text}{')' * 60}",
                "!" * 40 + text,
                "",
            )
        )
    return text


def _operands(rng: Random, root: str, depth: int) -> dict[str, str]:
    return {kind: _term(rng, kind, root, depth) for kind in ("string", "int", "any", "list", "map", "bool")} | {
        "self": root
    }


def _term(rng: Random, kind: str, root: str, depth: int) -> str:
    if rng.random() < 0.06:
        kind = rng.choice(("string", "int", "bool", "list", "map"))
    if depth > 3 or rng.random() < 0.2:
        return _leaf(rng, kind, root)
    if rng.random() < 0.15:
        return rng.choice(_ROOTS[root])
    if rng.random() < 0.5:
        return rng.choice(_FUNCTIONS).format(**_operands(rng, root, depth + 2))
    below = [_term(rng, kind, root, depth + 1) for _ in range(3)]
    if kind == "bool":
        parts = [_term(rng, rng.choice(("int", "string", "any")), root, depth + 1) for _ in range(2)]
        return rng.choice(
            (
                f"{parts[0]} {rng.choice(_OPERATORS)} {parts[1]}",
                f"!({below[0]})",
                f"({below[0]}) && ({below[1]})",
                f"({below[0]}) ? ({below[1]}) : ({below[2]})",
            )
        )
    if kind == "list":
        return f"[{', '.join(below)}]"
    if kind == "map":
        return f"{{{_leaf(rng, 'string', root)}: {below[0]}, {_leaf(rng, 'any', root)}: {below[1]}}}"
    return f"{below[0]} {rng.choice(_OPERATORS[:5])} {below[1]}"


def _leaf(rng: Random, kind: str, root: str) -> str:
    if kind == "string":
        return rng.choice(_TEXTS)
    if kind == "int":
        return rng.choice(_INTS)
    if kind == "bool":
        return rng.choice(("true", "false", f"{root} != null"))
    if kind == "list":
        return rng.choice(("[]", "[1, 2]", "['a', 'b']", "[1, 'a', null, [1]]", "[1.5, 2u]", "[null]", f"{root}.b"))
    if kind == "map":
        return rng.choice(("{}", "{'a': 1}", "{1: 2}", "{true: 'x'}", "{1.5: 1}", root))
    return rng.choice((*_TEXTS, *_INTS, "null", "true", "[]", "{}", *_ROOTS[root]))
