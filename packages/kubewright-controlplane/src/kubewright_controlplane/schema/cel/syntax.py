"""Expressions as they are parsed. Each knows where it stands; the checker notes what type it has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as Choice
from typing import TypeAlias

from kubewright_controlplane.schema.cel.types import DYN, Type

MacroName: TypeAlias = Choice[
    "all", "exists", "exists_one", "filter", "map", "optMap", "optFlatMap", "sortBy", "transformList", "transformMap",
    "transformMapEntry",
]  # fmt: skip


class CompileError(ValueError):
    """The source is no good expression. The text shows every fault with its place, as cel-go does."""


@dataclass(slots=True, eq=False)
class Expr:
    at: int
    """Where in the source it stands: the operator, the bracket of a call, else its first character."""
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
    """A function or operator; of a member function, the first argument is what it is called on."""

    function: str
    arguments: list[Expr]
    member: bool = False


@dataclass(slots=True, eq=False)
class ListExpr(Expr):
    items: list[Expr]
    optional: frozenset[int]
    """Which items are optional values, left out when they are none."""
    mixed: bool = False
    """Whether its items may be of several types: what `format` is given."""


@dataclass(slots=True, eq=False)
class MapExpr(Expr):
    entries: list[tuple[Expr, Expr]]
    optional: frozenset[int]


@dataclass(slots=True, eq=False)
class Macro(Expr):
    """A loop over `range`, with its variables bound in `body` (and in `result`, for those that have one)."""

    name: MacroName
    range: Expr
    variables: list[str]
    body: Expr
    result: Expr | None = None
    """What is put into the list or map; None where the macro's body is that."""


def parts(expression: Expr) -> list[Expr]:
    """The expressions that one is made of."""
    match expression:
        case Select() | Has():
            return [expression.operand]
        case Call():
            return expression.arguments
        case ListExpr():
            return expression.items
        case MapExpr():
            return [part for entry in expression.entries for part in entry]
        case Macro():
            result = [expression.result] if expression.result is not None else []
            return [expression.range, expression.body, *result]
        case _:
            return []


def shown(source: str, faults: list[tuple[int, str]]) -> str:
    """Faults with the line each is in and a mark below its place, as cel-go shows them."""
    texts: list[str] = []
    for at, fault in sorted(faults):
        before = source[:at]
        line = before.count("\n")
        column = at - (before.rfind("\n") + 1)
        text = source.split("\n")[line]
        texts.append(f"ERROR: <input>:{line + 1}:{column + 1}: {fault}\n | {text}\n | {'.' * column}^")
    return "\n".join(texts)
