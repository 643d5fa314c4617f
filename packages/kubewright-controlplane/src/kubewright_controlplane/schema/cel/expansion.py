"""Macros as the loops that they stand for, for cost estimates.

A loop has an accumulator, which each iteration replaces. The accumulator's name cannot be written in source code.

Follows cel-go's parser/macro.go, cel/library.go (optMap), ext/comprehensions.go and ext/lists.go (sortBy).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kubewright.cel.syntax import Call, Expr, Ident, ListExpr, Literal, Macro, MapExpr
from kubewright.cel.types import BOOL, DYN, INT, Type, list_of, map_of, optional_of

ACCUMULATOR: Final = "@result"
_SORTED: Final = "@sorted"


@dataclass(slots=True, eq=False)
class Loop(Expr):
    """A loop over `range`: `start` is the accumulator's first value, `step` that after an iteration."""

    range: Expr
    variables: list[str]
    start: Expr
    condition: Expr
    step: Expr
    result: Expr


@dataclass(slots=True, eq=False)
class Bind(Expr):
    """The value of `body`, in which `name` is the value of `value`."""

    name: str
    value: Expr
    body: Expr


@dataclass(slots=True, eq=False)
class Again(Expr):
    """An expression that occurs a second time, in the same scope. Chains of such macros would else double its work."""

    first: Expr


def expanded(macro: Macro) -> Expr:
    """Return what a macro stands for. Types are those that the estimate of its cost looks at."""
    return _EXPANSIONS[macro.name](macro)


def _accumulator(type: Type) -> Ident:
    return Ident(0, ACCUMULATOR, type=type)


def _call(function: str, *arguments: Expr, type: Type, member: bool = False) -> Call:
    return Call(0, function, list(arguments), member, type=type)


def _literal(value: object, type: Type) -> Literal:
    return Literal(0, value, type=type)


def _loop(macro: Macro, start: Expr, condition: Expr, step: Expr, result: Expr | None = None) -> Loop:
    result = result or _accumulator(start.type)
    return Loop(macro.at, macro.range, macro.variables, start, condition, step, result, type=macro.type)


def _all(macro: Macro) -> Expr:
    condition = _call("@not_strictly_false", _accumulator(BOOL), type=BOOL)
    step = _call("_&&_", _accumulator(BOOL), macro.body, type=BOOL)
    return _loop(macro, _literal(True, BOOL), condition, step)


def _exists(macro: Macro) -> Expr:
    negated = _call("!_", _accumulator(BOOL), type=BOOL)
    condition = _call("@not_strictly_false", negated, type=BOOL)
    step = _call("_||_", _accumulator(BOOL), macro.body, type=BOOL)
    return _loop(macro, _literal(False, BOOL), condition, step)


def _exists_one(macro: Macro) -> Expr:
    one = _literal(1, INT)
    counted = _call("_+_", _accumulator(INT), one, type=INT)
    step = _call("_?_:_", macro.body, counted, _accumulator(INT), type=INT)
    result = _call("_==_", _accumulator(INT), one, type=BOOL)
    return _loop(macro, _literal(0, INT), _literal(True, BOOL), step, result)


def _filtered(macro: Macro, condition: Expr | None, step: Expr) -> Expr:
    """Build a loop whose iterations do nothing where `condition` is false."""
    if condition is not None:
        step = _call("_?_:_", condition, step, _accumulator(step.type), type=step.type)
    is_list = step.type.name == "list"
    start = ListExpr(0, [], frozenset(), type=step.type) if is_list else MapExpr(0, [], frozenset(), type=step.type)
    return _loop(macro, start, _literal(True, BOOL), step)


def _appended(item: Expr) -> Expr:
    items = list_of(item.type)
    return _call("_+_", _accumulator(items), ListExpr(0, [item], frozenset(), type=items), type=items)


def _filter(macro: Macro) -> Expr:
    item = Ident(0, macro.variables[0], type=macro.type.parameters[0])
    return _filtered(macro, macro.body, _appended(item))


def _map(macro: Macro) -> Expr:
    if macro.result is None:
        return _filtered(macro, None, _appended(macro.body))
    return _filtered(macro, macro.body, _appended(macro.result))


def _transform_map(macro: Macro) -> Expr:
    condition, value = (None, macro.body) if macro.result is None else (macro.body, macro.result)
    entries = map_of(DYN, DYN)
    key = [Ident(0, macro.variables[0], type=DYN)] if macro.name == "transformMap" else []
    return _filtered(macro, condition, _call("cel.@mapInsert", _accumulator(entries), *key, value, type=entries))


def _sort_by(macro: Macro) -> Expr:
    def itself() -> Expr:
        return Ident(0, _SORTED, type=macro.range.type)

    keys = Macro(0, "map", itself(), macro.variables, macro.body, type=list_of(macro.body.type))
    ordered = _call("@sortByAssociatedKeys", itself(), keys, type=macro.type, member=True)
    return Bind(macro.at, _SORTED, macro.range, ordered, type=macro.type)


def _optional_map(macro: Macro) -> Expr:
    name, optional = macro.variables[0], macro.range
    inner = optional.type.parameters[0] if optional.type.parameters else DYN
    present = _call("hasValue", optional, type=BOOL, member=True)
    value = _call("value", Again(optional.at, optional, type=optional.type), type=inner, member=True)
    bound: Expr = Bind(macro.at, name, value, macro.body, type=macro.body.type)
    if macro.name == "optMap":
        bound = _call("optional.of", bound, type=optional_of(bound.type))
    return _call("_?_:_", present, bound, _call("optional.none", type=bound.type), type=bound.type)


_EXPANSIONS: Final[Mapping[str, Callable[[Macro], Expr]]] = {
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _map,
    "transformList": _map,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_map,
    "sortBy": _sort_by,
    "optMap": _optional_map,
    "optFlatMap": _optional_map,
}
