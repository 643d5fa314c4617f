"""The worst case of an expression's cost, estimated from the sizes in the schema.

A rule that could cost too much is rejected with its CRD, before it is evaluated on any object. One unit is a step of
the interpreter, about 50 ns in cel-go. A size without a bound is assumed to be as large as a request can be.

Follows cel-go's checker/cost.go and k8s.io/apiserver/pkg/cel/library/cost.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Final

from kubewright_controlplane.schema.cel.syntax import (
    Call,
    Expr,
    Has,
    Ident,
    ListExpr,
    Literal,
    Macro,
    MapExpr,
    Select,
    StructExpr,
)  # fmt: skip
from kubewright_controlplane.schema.cel.types import DYN, STRING, Type

RULE_LIMIT: Final = 10_000_000
"""The limit for one expression, summed over all values that it is evaluated on."""
SCHEMA_LIMIT: Final = 100_000_000
"""The limit for all expressions of a schema together."""

_ENDLESS: Final = 2**64 - 1
_TRAVERSAL: Final = 0.1
_PATTERN: Final = 0.25
_SIZED: Final = frozenset({"string", "bytes", "list", "map", "dyn"})
_MAYBE_BYTES: Final = frozenset({"bytes", "dyn"})
"""Only the string length of these types is known: cel-go uses the conversion of bytes, which a value of any type (an
int-or-string) may need.
"""
_LOOP: Final = {
    "all": (3, 1), "exists": (4, 1), "exists_one": (2, 2), "filter": (13, 1), "map": (12, 1), "sortBy": (12, 1),
    "transformList": (12, 1), "transformMap": (32, 1), "transformMapEntry": (32, 1),
}  # fmt: skip
"""The cost of an iteration of a macro in addition to its body, and of what its result does."""


def estimate(expression: Expr) -> int:
    """Return the maximum cost of `expression`, whose types are recorded."""
    return min(_Estimator().cost(expression), _ENDLESS)


def over_limit(what: str, cost: int, limit: int) -> str:
    """Return the API server's message for a cost that is too high."""
    return (
        f"{what} exceeds budget by factor of {_factor(cost / limit)} (try simplifying the rule, or adding maxItems, "
        "maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


def _factor(times: float) -> str:
    if times > 100:
        return "more than 100x"
    return f"{times:f}x" if times < 1.5 else f"{times:.1f}x"


class _Estimator:
    def cost(self, expression: Expr) -> int:
        match expression:
            case Ident():
                return 1
            case Select():
                costs = expression.optional or _is_object(expression.operand.type)
                return self.cost(expression.operand) + costs
            case Has():
                return self.cost(expression.operand)
            case Call():
                return self._call(expression)
            case ListExpr():
                return 10 + sum(map(self.cost, expression.items))
            case MapExpr():
                return 30 + sum(self.cost(key) + self.cost(value) for key, value in expression.entries)
            case StructExpr():
                return 40 + sum(self.cost(field.value) for field in expression.fields)
            case Macro():
                return self._macro(expression)
            case _:
                return 0

    def _macro(self, expression: Macro) -> int:
        body = self.cost(expression.body) + (self.cost(expression.result) if expression.result is not None else 0)
        if expression.name in ("optMap", "optFlatMap"):
            return self.cost(expression.range) + body + 10
        turn, result = _LOOP[expression.name]
        return self.cost(expression.range) + result + self.size(expression.range) * (turn + body)

    def _call(self, expression: Call) -> int:
        arguments = [self.cost(each) for each in expression.arguments]
        if expression.function == "_?_:_":
            return arguments[0] + max(arguments[1:])
        if expression.function in ("_&&_", "_||_"):
            return sum(arguments)
        if expression.function in ("_<_", "_<=_", "_>_", "_>=_"):
            return sum(arguments) + self._comparison(expression)
        return sum(arguments) + self._function(expression)

    def _comparison(self, expression: Call) -> int:
        left, right = expression.arguments
        return _smaller([self.size(left), self.size(right)]) if left.type.name in ("string", "bytes") else 1

    def _function(self, expression: Call) -> int:
        sizes = [self.size(each) for each in expression.arguments]
        name = expression.function
        if name in _BY_SIZE:
            return _BY_SIZE[name](sizes)
        of = expression.arguments[0].type if expression.arguments else DYN
        match name:
            case "_+_" if expression.type.name in ("string", "bytes"):
                return _traversal(sum(sizes))
            case "string" if of.name in _MAYBE_BYTES:
                return _traversal(sizes[0])
            case "@in":
                return sizes[1] if expression.arguments[1].type.name != "map" else 1
            case "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf":
                return sizes[0] * _item_cost(of) if of.name == "list" else _traversal(sizes[0])
            case "join":
                separators = (sizes[1] if len(sizes) > 1 else 0) * max(0, sizes[0] - 1)
                return _traversal(sizes[0] * of.parameters[0].max_size + separators)
            case "slice" | "lists.range":
                return 11 + self.size(expression)
            case "flatten" | "reverse":
                return 11 + sizes[0]
            case "containsIP" | "containsCIDR":
                compared = 4 if name == "containsIP" else 7
                return compared + (_traversal(sizes[1]) if expression.arguments[1].type == STRING else 0)
            case _:
                return 1

    def size(self, expression: Expr) -> int:
        """Return the maximum number of characters, items or entries of the value; 1 for a value without a size."""
        match expression:
            case Literal(value=str() | bytes() as value):
                return len(value)
            case Call(function="_+_"):
                return sum(map(self.size, expression.arguments))
            case Call(function="_?_:_"):
                return max(self.size(expression.arguments[1]), self.size(expression.arguments[2]))
            case Call(function="dyn" | "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "split" | "find"):
                return self.size(expression.arguments[0])
            case Call(function="string", arguments=[of]) if of.type.name in _MAYBE_BYTES:
                return self.size(of)
            case Call(function="type"):
                return 0
            case Call(function="lists.range", arguments=[Literal(value=int(count))]):
                return count
            case Call(function="slice", arguments=[_, Literal(value=int(start)), Literal(value=int(end))]):
                return max(0, end - start)
            case Macro(name="map" | "filter" | "sortBy" | "transformList"):
                return self.size(expression.range)
            case _:
                found = expression.type
                return min(found.max_size, _ENDLESS) if found.name in _SIZED or not found.max_size else 1


def _is_object(type: Type) -> bool:
    return type.fields is not None or type.name == "map"


def _item_cost(of: Type) -> int:
    item = of.parameters[0]
    return 1 + _traversal(item.max_size) if item.name in ("string", "bytes") else 1


def _traversal(size: int, factor: float = _TRAVERSAL) -> int:
    return ceil(size * factor) if size < _ENDLESS else size


def _one_traversal(sizes: list[int]) -> int:
    return _traversal(sizes[0])


def _two_traversals(sizes: list[int]) -> int:
    return _traversal(sizes[0], 2 * _TRAVERSAL)


def _smaller(sizes: list[int]) -> int:
    return _traversal(min(sizes))


def _pattern_match(sizes: list[int]) -> int:
    return _traversal(sizes[0] + 1) * _traversal(sizes[1], _PATTERN)


_BY_SIZE: Final[Mapping[str, Callable[[list[int]], int]]] = {
    **dict.fromkeys(("_==_", "_!=_"), _smaller),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _one_traversal),
    **dict.fromkeys(
        ("url", "cidr", "ip", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _one_traversal
    ),
    **dict.fromkeys(("format", "bytes"), _one_traversal),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _two_traversals),
    **dict.fromkeys(("matches", "find", "findAll"), _pattern_match),
    "startsWith": lambda sizes: _traversal(sizes[1]),
    "endsWith": lambda sizes: _traversal(sizes[1]),
    "contains": lambda sizes: _traversal(sizes[0]) * _traversal(sizes[1]),
    "validate": lambda sizes: _traversal(sizes[1]) * 32,
    "distinct": lambda sizes: 11 + 2 * sizes[0] ** 2,
    "sort": lambda sizes: 11 + ceil(2.1 * sizes[0] ** 2),
    "sets.contains": lambda sizes: 1 + sizes[0] * sizes[1],
    "sets.intersects": lambda sizes: 1 + sizes[0] * sizes[1],
    "sets.equivalent": lambda sizes: 1 + 2 * sizes[0] * sizes[1],
}
"""The cost of functions by the sizes of their arguments."""
