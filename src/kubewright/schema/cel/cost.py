"""The worst case of an expression's cost, from what the schema says of sizes.

A rule that could cost too much is refused with its CRD, before any object is judged by it. One unit is a step of the
interpreter, about 50 ns in cel-go. Sizes that nothing bounds are taken for as large as a request can be.

Follows cel-go's checker/cost.go and k8s.io/apiserver/pkg/cel/library/cost.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final

from kubewright.schema.cel.functions import Function
from kubewright.schema.cel.syntax import (
    Call,
    Expr,
    Has,
    Ident,
    ListExpr,
    Literal,
    Macro,
    MapExpr,
    Select,
)  # fmt: skip
from kubewright.schema.cel.types import Type

RULE_LIMIT: Final = 10_000_000
"""What one expression may cost, at the places that it stands for together."""
SCHEMA_LIMIT: Final = 100_000_000
"""What all expressions of a schema may cost together."""

_ENDLESS: Final = 2**64 - 1
_TRAVERSAL: Final = 0.1
_PATTERN: Final = 0.25
_SIZED: Final = frozenset({"string", "bytes", "list", "map", "dyn"})
_LOOP: Final = {
    "all": (3, 1), "exists": (4, 1), "exists_one": (2, 2), "filter": (13, 1), "map": (12, 1), "sortBy": (12, 1),
    "transformList": (12, 1), "transformMap": (32, 1), "transformMapEntry": (32, 1),
}  # fmt: skip
"""What a turn of a macro costs beside its body, and what its result does."""


def estimate(expression: Expr, functions: Mapping[str, tuple[Function, ...]]) -> int:
    """The most that `expression`, with its types noted, can cost."""
    return min(_Estimator(functions).cost(expression), _ENDLESS)


def over_limit(what: str, cost: int, limit: int) -> str:
    """How the API server says that a cost is too high."""
    return (
        f"{what} exceeds budget by factor of {_factor(cost / limit)} (try simplifying the rule, or adding maxItems, "
        "maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


def _factor(times: float) -> str:
    if times > 100:
        return "more than 100x"
    return f"{times:f}x" if times < 1.5 else f"{times:.1f}x"


class _Estimator:
    def __init__(self, functions: Mapping[str, tuple[Function, ...]]) -> None:
        self._functions = functions

    def cost(self, expression: Expr) -> int:
        match expression:
            case Ident():
                return 1
            case Select():
                return self.cost(expression.operand) + _is_object(expression.operand.type)
            case Has():
                return self.cost(expression.operand)
            case Call():
                return self._call(expression)
            case ListExpr():
                return 10 + sum(map(self.cost, expression.items))
            case MapExpr():
                return 30 + sum(self.cost(key) + self.cost(value) for key, value in expression.entries)
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
        return sum(arguments) + self._function(expression)

    def _function(self, expression: Call) -> int:
        sizes = [self.size(each) for each in expression.arguments]
        match expression.function:
            case "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_":
                return _traversal(min(sizes))
            case "@in":
                return sizes[1]
            case "matches" | "find" | "findAll":
                return _traversal(sizes[0] + 1) * max(1, ceil(sizes[1] * _PATTERN))
            case "contains" if expression.arguments[0].type.name in ("string", "dyn"):
                return _traversal(sizes[0]) * _traversal(sizes[1])
            case "startsWith" | "endsWith":
                return _traversal(sizes[1])
            case "_+_" if expression.type.name in ("string", "bytes"):
                return _traversal(sum(sizes))
            case "_+_" | "size":
                return 1
            case name:
                linear = any(each.linear for each in self._functions.get(name, ()))
                return max(1, _traversal(sum(sizes))) if linear else 1

    def size(self, expression: Expr) -> int:
        """The most characters, items or entries that the value can have; 1 for what has none."""
        if expression.type.name not in _SIZED:
            return 1
        match expression:
            case Literal(value=str() | bytes() as value):
                return len(value)
            case Call(function="_+_"):
                return sum(map(self.size, expression.arguments))
            case Call(function="_?_:_"):
                return max(self.size(expression.arguments[1]), self.size(expression.arguments[2]))
            case Macro(name="map" | "filter" | "sortBy" | "transformList"):
                return self.size(expression.range)
            case _:
                return min(expression.type.max_size, _ENDLESS)


def _is_object(type: Type) -> bool:
    return type.fields is not None or type.name == "map"


def _traversal(size: int) -> int:
    return ceil(size * _TRAVERSAL) if size < _ENDLESS else size
