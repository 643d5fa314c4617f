"""Syntax trees of expressions. Each node knows its position in the source; the checker records its type."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as Choice
from typing import TypeAlias

from kubewright.cel.types import DYN, Type

MacroName: TypeAlias = Choice[
    "all", "exists", "exists_one", "filter", "map", "optMap", "optFlatMap", "sortBy", "transformList", "transformMap",
    "transformMapEntry",
]  # fmt: skip


class CompileError(ValueError):
    """The source is not a valid expression. The text shows every error with its position, as cel-go does."""


@dataclass(slots=True, eq=False)
class Expr:
    at: int
    """Position in the source: of the operator, of the bracket of a call, or else of the first character."""
    type: Type = field(default=DYN, kw_only=True)


@dataclass(slots=True, eq=False)
class Literal(Expr):
    value: object


@dataclass(slots=True, eq=False)
class Ident(Expr):
    name: str


@dataclass(slots=True, eq=False)
class Select(Expr):
    operand: Expr
    field: str
    optional: bool = False


@dataclass(slots=True, eq=False)
class Has(Expr):
    """`has(a.b)`"""

    operand: Expr
    field: str


@dataclass(slots=True, eq=False)
class Call(Expr):
    """A function or operator. The first argument of a member function is its receiver."""

    function: str
    arguments: list[Expr]
    member: bool = False


@dataclass(slots=True, eq=False)
class ListExpr(Expr):
    items: list[Expr]
    optional: frozenset[int]
    """The items that are optional values, which are left out if absent."""
    mixed: bool = False
    """Whether the items may have several types, as the argument of `format` may."""


@dataclass(slots=True, eq=False)
class MapExpr(Expr):
    entries: list[tuple[Expr, Expr]]
    optional: frozenset[int]


@dataclass(slots=True, eq=False)
class StructField:
    at: int
    """Position of the colon."""
    name: str
    value: Expr
    optional: bool
    """The value is optional, and the field is left out if it is absent."""


@dataclass(slots=True, eq=False)
class StructExpr(Expr):
    """`Object.spec{replicas: 3}`: a new value of a named type."""

    name: str
    fields: list[StructField]


@dataclass(slots=True, eq=False)
class Macro(Expr):
    """A loop over `range`. Its variables are bound in `body`, and in `result` for the loops that have one."""

    name: MacroName
    range: Expr
    variables: list[str]
    body: Expr
    result: Expr | None = None
    """What is added to the list or map; None if it is the body."""


def parts(expression: Expr) -> list[Expr]:
    """Return the subexpressions of an expression."""
    match expression:
        case Select() | Has():
            return [expression.operand]
        case Call():
            return expression.arguments
        case ListExpr():
            return expression.items
        case MapExpr():
            return [part for entry in expression.entries for part in entry]
        case StructExpr():
            return [field.value for field in expression.fields]
        case Macro():
            result = [expression.result] if expression.result is not None else []
            return [expression.range, expression.body, *result]
        case _:
            return []


def shown(source: str, errors: list[tuple[int, str]]) -> str:
    """Return the errors, each with its line and a caret below its position, as cel-go shows them."""
    texts: list[str] = []
    for at, error in sorted(errors):
        before = source[:at]
        line = before.count("\n")
        column = at - (before.rfind("\n") + 1)
        text = source.split("\n")[line]
        texts.append(f"ERROR: <input>:{line + 1}:{column + 1}: {error}\n | {text}\n | {'.' * column}^")
    return "\n".join(texts)
