"""Compiles a checked expression to closures over plain objects.

Each node becomes a function of a frame: a list with the remaining cost budget, followed by the variables. If the
checker knows the types, the one overload is bound. If it does not (`dyn`), the candidates are tried at run time.
Values of a document are converted to the types in its schema (timestamps, durations, bytes, doubles) when they are
selected.

Cost is counted where it can grow: each iteration of a loop costs what its body costs, and functions on strings, lists
and maps cost a tenth of the sizes of their arguments and result. The limit stops an expression that would run for
long. The count is close to cel-go's, but not equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubewright.cel import loops
from kubewright.cel.calls import call_of, candidates, is_dynamic
from kubewright.cel.checker import TYPE_NAMES
from kubewright.cel.code import Code, Frame, Meter, require_bool
from kubewright.cel.conversion import converter
from kubewright.cel.functions import Function
from kubewright.cel.syntax import (
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
from kubewright.cel.types import DYN, VARIABLES, Type
from kubewright.cel.values import (
    NONE,
    CostExceeded,
    EvaluationError,
    Optional,
    StructValue,
    TypeValue,
    contains,
    equal,
    item,
    type_name,
)
from kubewright.machinery import effort
from kubewright.machinery.cel_names import unescape

_PATTERN: Final = 1000
"""The cost of compiling a pattern."""
_TURNS: Final = {"exists": 4, "exists_one": 1, "filter": 1, "map": 12, "transformList": 12}
"""The cost of an iteration of a loop, in addition to its body. `map` builds a list of one item and appends it."""
_OTHER_TURN: Final = 3
_FREE: Final = frozenset({"_&&_", "_||_", "_?_:_"})
"""Operators that cost only what their operands cost."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an evaluation."""

    value: Any
    cost: int
    error: str = ""
    """The reason why there is no value; empty if there is one."""


class Program:
    """A compiled expression. It can be evaluated many times."""

    __slots__ = ("_code", "_slots")

    def __init__(
        self, expression: Expr, variables: Sequence[str], functions: Mapping[str, tuple[Function, ...]]
    ) -> None:
        compiler = _Compiler(functions)
        scope = {name: place for place, name in enumerate(variables, 1)}
        self._code = compiler.compile(expression, scope)
        self._slots = compiler.slots

    def evaluate(self, values: Sequence[Any], budget: int) -> tuple[Any, int]:
        """Return the value of the expression for these variables, and the remaining budget.

        Raises EvaluationError if it has no value, CostExceeded if it costs more than `budget`.
        """
        frame: Frame = [budget, *values, *([None] * (self._slots - len(values))), None]
        try:
            return self._code(frame), frame[0]
        except RecursionError:
            raise EvaluationError("expression is nested too deeply") from None

    def attempt(self, values: Sequence[Any], limit: int, meter: Meter) -> Outcome:
        """Evaluate the expression, and return its cost too if it has no value."""
        outer = meter.reserve
        frame: Frame = [0, *values, *([None] * (self._slots - len(values))), meter]
        meter.reserve, value, error = limit, None, ""
        token = effort.limit.set(meter.foresee)
        try:
            frame[0] = meter.start(limit)
            value = self._code(frame)
        except RecursionError:
            error = "expression is nested too deeply"
        except (EvaluationError, CostExceeded) as caught:
            error = str(caught)
        finally:
            effort.limit.reset(token)
        cost = limit - frame[0] - meter.reserve
        meter.reserve = outer
        return Outcome(value, cost, error)


class _Compiler:
    def __init__(self, functions: Mapping[str, tuple[Function, ...]]) -> None:
        self._functions = functions
        self.slots = 2

    def compile(self, expression: Expr, scope: Mapping[str, int]) -> Code:
        self.slots = max(self.slots, len(scope))
        match expression:
            case Literal():
                return _constant(expression.value)
            case Ident():
                return _variable(expression, scope)
            case Select():
                return self._select(expression, scope)
            case Has():
                return self._has(expression, scope)
            case Call():
                return self._call(expression, scope)
            case ListExpr():
                return self._list(expression, scope)
            case MapExpr():
                return self._map(expression, scope)
            case StructExpr():
                return self._struct(expression, scope)
            case Macro():
                return self._macro(expression, scope)
            case _:
                raise AssertionError(expression)

    def _select(self, expression: Select, scope: Mapping[str, int]) -> Code:
        if expression.type.name == "type" and expression.type.parameters:
            return _constant(TypeValue(expression.type.parameters[0].name))
        operand = self.compile(expression.operand, scope)
        of = expression.operand.type
        key = unescape(expression.field) if of.fields is not None else expression.field
        if of.name == "optional_type" or expression.optional:
            inner = of.parameters[0] if of.name == "optional_type" else of
            key = unescape(expression.field) if inner.fields is not None else expression.field
            found = expression.type.parameters[0] if expression.type.parameters else DYN
            return _optional_select(operand, key, converter(found), nulls=_has_nulls(inner))
        select = _selected(operand, key, nulls=_has_nulls(of))
        convert = converter(expression.type)
        return select if convert is None else lambda frame: convert(select(frame))

    def _has(self, expression: Has, scope: Mapping[str, int]) -> Code:
        operand = self.compile(expression.operand, scope)
        of = expression.operand.type
        inner = of.parameters[0] if of.name == "optional_type" else of
        key = unescape(expression.field) if inner.fields is not None else expression.field
        nulls = _has_nulls(inner)

        def has(frame: Frame) -> bool:
            value = operand(frame)
            if value.__class__ is Optional:
                value = value.value
            return isinstance(value, dict) and key in value and (nulls or value[key] is not None)

        return has

    def _struct(self, expression: StructExpr, scope: Mapping[str, int]) -> Code:
        name = expression.name
        fields = [(field.name, self.compile(field.value, scope), field.optional) for field in expression.fields]

        def make(frame: Frame) -> StructValue:
            found: dict[str, Any] = {}
            for field, code, optional in fields:
                value = code(frame)
                if not optional:
                    found[field] = value
                elif value.present:
                    found[field] = value.value
            return StructValue(name, found)

        return make

    def _list(self, expression: ListExpr, scope: Mapping[str, int]) -> Code:
        items = [self.compile(each, scope) for each in expression.items]
        optional = expression.optional
        if not optional:
            return lambda frame: [each(frame) for each in items]

        def make(frame: Frame) -> list[Any]:
            values = [each(frame) for each in items]
            present = [value for i, value in enumerate(values) if i not in optional or value.present]
            return [value.value if value.__class__ is Optional else value for value in present]

        return make

    def _map(self, expression: MapExpr, scope: Mapping[str, int]) -> Code:
        entries = [(self.compile(key, scope), self.compile(value, scope)) for key, value in expression.entries]
        optional = expression.optional

        def make(frame: Frame) -> dict[Any, Any]:
            out: dict[Any, Any] = {}
            for index, (key_of, value_of) in enumerate(entries):
                key, value = key_of(frame), value_of(frame)
                if isinstance(key, list | dict):
                    raise EvaluationError(f"unsupported key type: {type_name(key)}")
                if key in out:
                    raise EvaluationError(f"duplicate map key: {key}")
                if index not in optional:
                    out[key] = value
                elif value.present:
                    out[key] = value.value
            return out

        return make

    def _call(self, expression: Call, scope: Mapping[str, int]) -> Code:
        arguments = [self.compile(each, scope) for each in expression.arguments]
        match expression.function:
            case "_&&_":
                return _both(*arguments)
            case "_||_":
                return _either(*arguments)
            case "_?_:_":
                return _choice(*arguments)
            case "_[_]" if expression.arguments[0].type.name != "optional_type":
                return _indexed(arguments[0], arguments[1], converter(expression.type))
            case "_==_" | "_!=_" | "@in" if special := _special_equality(expression, arguments):
                return special
            case _:
                found = candidates(expression, self._functions)
                return call_of(found, arguments, _extra_cost(expression), dynamic=is_dynamic(found, expression))

    def _macro(self, expression: Macro, scope: Mapping[str, int]) -> Code:
        over = self.compile(expression.range, scope)
        inner, places = _extended(scope, expression.variables)
        body = self.compile(expression.body, inner)
        result = self.compile(expression.result, inner) if expression.result is not None else None
        self.slots = max(self.slots, len(inner))
        turn = _TURNS.get(expression.name, _OTHER_TURN) + _cost_of(expression.body)
        turn += _cost_of(expression.result) if expression.result is not None else 0
        iterations = loops.iterations_of(over, places, turn)
        match expression.name:
            case "all":
                return loops.every(iterations, body)
            case "exists":
                return loops.some(iterations, body)
            case "exists_one":
                return loops.only_one(iterations, body)
            case "filter":
                return loops.filtered(iterations, places[0], body)
            case "optMap" | "optFlatMap":
                return loops.optional_mapped(over, places[0], body, flat=expression.name == "optFlatMap")
            case "sortBy":
                return loops.ordered(iterations, places[0], body)
            case "transformMap":
                return loops.transformed_map(iterations, places[0], body, result)
            case "transformMapEntry":
                return loops.transformed_entries(iterations, body, result)
            case _:
                return loops.mapped(iterations, body, result)


def _has_nulls(of: Type) -> bool:
    """Return whether null is a value of a field or entry. In an object of a schema, it means absent."""
    return of.fields is None or of == VARIABLES


def _extra_cost(expression: Call) -> int:
    """Return the cost of a call that is known before the evaluation: a pattern that is not a literal is compiled."""
    if expression.function in ("matches", "find", "findAll") and not isinstance(expression.arguments[1], Literal):
        return _PATTERN
    return 0


def _constant(value: Any) -> Code:
    return lambda frame: value


def _variable(expression: Ident, scope: Mapping[str, int]) -> Code:
    place = scope.get(expression.name)
    if place is None:
        return _constant(TypeValue(TYPE_NAMES[expression.name].parameters[0].name))
    return lambda frame: frame[place]


def _extended(scope: Mapping[str, int], names: Sequence[str]) -> tuple[dict[str, int], list[int]]:
    """Return `scope` with new indices for `names`."""
    start = max(scope.values(), default=0) + 1
    places = list(range(start, start + len(names)))
    return {**scope, **dict(zip(names, places, strict=True))}, places


def _selected(operand: Code, key: str, *, nulls: bool) -> Code:
    """Compile `operand.key`. A field of an object that is null counts as absent; an entry of a map does not."""

    def select(frame: Frame) -> Any:
        try:
            found = operand(frame)[key]
        except (KeyError, TypeError, IndexError):
            raise EvaluationError(f"no such key: {key}") from None
        if found is None and not nulls:
            raise EvaluationError(f"no such key: {key}")
        return found

    return select


def _optional_select(operand: Code, key: str, convert: Callable[[Any], Any] | None, *, nulls: bool) -> Code:
    def select(frame: Frame) -> Optional:
        value = operand(frame)
        if value.__class__ is Optional:
            value = value.value
        if not isinstance(value, dict) or key not in value or (value[key] is None and not nulls):
            return NONE
        return Optional(value[key] if convert is None else convert(value[key]))

    return select


def _value_or_none(code: Code, frame: Frame) -> Any:
    """Return the value; None if its evaluation fails."""
    try:
        return code(frame)
    except EvaluationError:
        return None


def _both(left: Code, right: Code) -> Code:
    def both(frame: Frame) -> bool:
        try:
            if not require_bool(left(frame)):
                return False
        except EvaluationError as error:
            if _value_or_none(right, frame) is False:
                return False
            raise error from None
        return require_bool(right(frame))

    return both


def _either(left: Code, right: Code) -> Code:
    def either(frame: Frame) -> bool:
        try:
            if require_bool(left(frame)):
                return True
        except EvaluationError as error:
            if _value_or_none(right, frame) is True:
                return True
            raise error from None
        return require_bool(right(frame))

    return either


def _choice(condition: Code, chosen: Code, other: Code) -> Code:
    return lambda frame: chosen(frame) if require_bool(condition(frame)) else other(frame)


def _indexed(container: Code, key: Code, convert: Callable[[Any], Any] | None) -> Code:
    if convert is None:
        return lambda frame: item(container(frame), key(frame))
    return lambda frame: convert(item(container(frame), key(frame)))


def _special_equality(expression: Call, arguments: list[Code]) -> Code | None:
    """Compile `==` of two strings, integers or booleans without a type test, and `in` of constants without a search."""
    left, right = arguments
    kinds = [each.type.name for each in expression.arguments]
    if expression.function == "@in":
        container = expression.arguments[1]
        if kinds[0] == "string" and isinstance(container, ListExpr) and not container.optional:
            values = [each.value for each in container.items if isinstance(each, Literal)]
            if len(values) == len(container.items):
                known = frozenset(values)
                return lambda frame: left(frame) in known
        return None
    if kinds[0] == kinds[1] and kinds[0] in ("string", "int", "bool"):
        if expression.function == "_==_":
            return lambda frame: left(frame) == right(frame)
        return lambda frame: left(frame) != right(frame)
    lists = next((each.type for each in expression.arguments if each.type.list_keys is not None), None)
    if lists is None:
        return None
    wanted = expression.function == "_==_"
    return lambda frame: _same_members(left(frame), right(frame)) == wanted


def _same_members(left: Any, right: Any) -> bool:
    """Lists of type set or map are equal regardless of their order."""
    if left.__class__ is not list or right.__class__ is not list:
        return equal(left, right)
    return len(left) == len(right) and all(contains(right, each) for each in left)


def _cost_of(expression: Expr) -> int:
    """Return the cost of one evaluation without its loops: one for each call, and for each variable with all that is
    selected from it.
    """
    match expression:
        case Literal():
            return 0
        case Ident():
            return 1
        case Select(operand=Ident() | Select()):
            return _cost_of(expression.operand)
        case Select() | Has():
            return 1 + _cost_of(expression.operand)
        case Call():
            own = 0 if expression.function in _FREE else 1
            return own + sum(map(_cost_of, expression.arguments))
        case ListExpr():
            return 10 + sum(map(_cost_of, expression.items))
        case MapExpr():
            return 30 + sum(_cost_of(key) + _cost_of(value) for key, value in expression.entries)
        case StructExpr():
            return 40 + sum(_cost_of(field.value) for field in expression.fields)
        case Macro():
            return 1 + _cost_of(expression.range)
        case _:
            raise AssertionError(expression)
