"""A checked expression to closures over plain objects.

Each node becomes a function of a frame: a list with what is left of the cost budget in front, then the variables.
Where the checker knows the types, the one overload is bound; where it does not (`dyn`), the candidates are asked when
the values are there. Values from a document become what their schema says (timestamps, durations, bytes, doubles) when
they are selected.

Cost is counted where it can grow: for each turn of a loop, what its body costs; for functions on text, lists and maps,
a tenth of their size. So the limit ends an expression that would run long; it is close to what cel-go counts, not
equal.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from kubewright.machinery import time
from kubewright.machinery.json import is_array, is_object
from kubewright.schema.cel.checker import TYPE_NAMES
from kubewright.schema.cel.functions import Function, size_of
from kubewright.schema.cel.identifiers import unescape
from kubewright.schema.cel.library.lists import sorted_by
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
from kubewright.schema.cel.types import BYTES, DOUBLE, DURATION, DYN, TIMESTAMP, Type, unify
from kubewright.schema.cel.values import (
    NONE,
    CostExceeded,
    EvaluationError,
    Optional,
    TypeValue,
    contains,
    equal,
    item,
    no_overload,
)  # fmt: skip

Frame: TypeAlias = list[Any]
Code: TypeAlias = Callable[[Frame], Any]


_TURN: Final = 3
"""What a turn of a loop costs beside its body."""


class Program:
    """An expression that can be evaluated, again and again."""

    __slots__ = ("_code", "_slots")

    def __init__(
        self, expression: Expr, variables: Sequence[str], functions: Mapping[str, tuple[Function, ...]]
    ) -> None:
        compiler = _Compiler(functions)
        scope = {name: place for place, name in enumerate(variables, 1)}
        self._code = compiler.compile(expression, scope)
        self._slots = compiler.slots

    def evaluate(self, values: Sequence[Any], budget: int) -> tuple[Any, int]:
        """The value for these values of the variables, and what is left of the budget.

        Raises EvaluationError when there is none, CostExceeded when it costs more than `budget`.
        """
        frame: Frame = [budget, *values, *([None] * (self._slots - len(values)))]
        try:
            return self._code(frame), frame[0]
        except RecursionError:
            raise EvaluationError("expression is nested too deeply") from None


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
            return _optional_select(operand, key, converter(found), nulls=inner.fields is None)
        select = _selected(operand, key, nulls=of.fields is None)
        convert = converter(expression.type)
        return select if convert is None else lambda frame: convert(select(frame))

    def _has(self, expression: Has, scope: Mapping[str, int]) -> Code:
        operand = self.compile(expression.operand, scope)
        of = expression.operand.type
        inner = of.parameters[0] if of.name == "optional_type" else of
        key = unescape(expression.field) if inner.fields is not None else expression.field

        nulls = inner.fields is None

        def has(frame: Frame) -> bool:
            value = operand(frame)
            if value.__class__ is Optional:
                value = value.value
            return value.__class__ is dict and key in value and (nulls or value[key] is not None)

        return has

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
                return _function(self._candidates(expression), arguments)

    def _candidates(self, expression: Call) -> list[Function]:
        given = [each.type for each in expression.arguments]
        return [
            each
            for each in self._functions[expression.function]
            if each.signature.member == expression.member
            and len(each.signature.parameters) == len(given)
            and _may_be(each, given)
        ]

    def _macro(self, expression: Macro, scope: Mapping[str, int]) -> Code:
        over = self.compile(expression.range, scope)
        inner, places = _extended(scope, expression.variables)
        body = self.compile(expression.body, inner)
        result = self.compile(expression.result, inner) if expression.result is not None else None
        self.slots = max(self.slots, len(inner))
        turn = _TURN + _cost_of(expression.body) + (_cost_of(expression.result) if expression.result is not None else 0)
        turns = _turns(over, places, turn)
        match expression.name:
            case "all":
                return _all(turns, body)
            case "exists":
                return _exists(turns, body)
            case "exists_one":
                return lambda frame: sum(_true(body(frame)) for _ in turns(frame)) == 1
            case "filter":
                return lambda frame: [frame[places[0]] for _ in turns(frame) if _true(body(frame))]
            case "optMap" | "optFlatMap":
                return _optional_map(over, places[0], body, flat=expression.name == "optFlatMap")
            case "sortBy":
                return _sort_by(turns, places[0], body)
            case "transformMap":
                return _transform_map(turns, places[0], body, result)
            case "transformMapEntry":
                return _transform_entries(turns, body, result)
            case _:
                return _map_list(turns, body, result)


def converter(type: Type) -> Callable[[Any], Any] | None:
    """What makes a value of `type` of what JSON has for it; None when JSON's is that."""
    if type in _CONVERTERS:
        return _CONVERTERS[type]
    inner = converter(type.parameters[-1]) if type.name in ("list", "map") else None
    return _each_converted(inner) if inner is not None else None


def _each_converted(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def converted(value: Any) -> Any:
        if is_array(value):
            return [convert(each) for each in value]
        return {key: convert(each) for key, each in value.items()} if is_object(value) else value

    return converted


def _timestamp(value: Any) -> Any:
    if value.__class__ is not str:
        return value
    try:
        return time.parse(value if "T" in value.upper() else f"{value}T00:00:00Z")
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _duration(value: Any) -> Any:
    if value.__class__ is not str:
        return value
    try:
        return time.parse_duration(value)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _bytes(value: Any) -> Any:
    if value.__class__ is not str:
        return value
    try:
        return binascii.a2b_base64(value)
    except (binascii.Error, ValueError) as error:
        raise EvaluationError(str(error)) from None


def _double(value: Any) -> Any:
    return float(value) if value.__class__ is int else value


_CONVERTERS: Final[Mapping[Type, Callable[[Any], Any]]] = {
    TIMESTAMP: _timestamp, DURATION: _duration, BYTES: _bytes, DOUBLE: _double,
}  # fmt: skip


def _constant(value: Any) -> Code:
    return lambda frame: value


def _variable(expression: Ident, scope: Mapping[str, int]) -> Code:
    place = scope.get(expression.name)
    if place is None:
        return _constant(TypeValue(TYPE_NAMES[expression.name].parameters[0].name))
    return lambda frame: frame[place]


def _extended(scope: Mapping[str, int], names: Sequence[str]) -> tuple[dict[str, int], list[int]]:
    """`scope` with new places for `names`, beyond those that are taken."""
    start = max(scope.values(), default=0) + 1
    places = list(range(start, start + len(names)))
    return {**scope, **dict(zip(names, places, strict=True))}, places


def _selected(operand: Code, key: str, *, nulls: bool) -> Code:
    """`operand.key`. The field of an object that is null is not there, unlike an entry of a map."""

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
        if value.__class__ is not dict or key not in value or (value[key] is None and not nulls):
            return NONE
        return Optional(value[key] if convert is None else convert(value[key]))

    return select


def _true(value: Any) -> bool:
    if value.__class__ is not bool:
        raise no_overload()
    return bool(value)


def _both(left: Code, right: Code) -> Code:
    def both(frame: Frame) -> bool:
        try:
            if not _true(left(frame)):
                return False
        except EvaluationError:
            if right(frame) is False:
                return False
            raise
        return _true(right(frame))

    return both


def _either(left: Code, right: Code) -> Code:
    def either(frame: Frame) -> bool:
        try:
            if _true(left(frame)):
                return True
        except EvaluationError:
            if right(frame) is True:
                return True
            raise
        return _true(right(frame))

    return either


def _choice(condition: Code, chosen: Code, other: Code) -> Code:
    return lambda frame: chosen(frame) if _true(condition(frame)) else other(frame)


def _indexed(container: Code, key: Code, convert: Callable[[Any], Any] | None) -> Code:
    if convert is None:
        return lambda frame: item(container(frame), key(frame))
    return lambda frame: convert(item(container(frame), key(frame)))


def _special_equality(expression: Call, arguments: list[Code]) -> Code | None:
    """`==` of two texts, whole numbers or truths needs no question about their types; `in` of constants no search."""
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
    """Lists that are sets or maps are equal whatever their order."""
    if left.__class__ is not list or right.__class__ is not list:
        return equal(left, right)
    return len(left) == len(right) and all(contains(right, each) for each in left)


def _may_be(function: Function, given: Sequence[Type]) -> bool:
    bound: dict[str, Type] = {}
    return all(unify(wanted, each, bound) for wanted, each in zip(function.signature.parameters, given, strict=True))


def _function(candidates: list[Function], arguments: list[Code]) -> Code:
    if len(candidates) != 1:
        return _dispatched(candidates, arguments)
    (function,) = candidates
    call = function.call
    if function.linear:
        return _linear(call, arguments)
    match arguments:
        case [only]:
            return lambda frame: call(only(frame))
        case [first, second]:
            return lambda frame: call(first(frame), second(frame))
        case _:
            return lambda frame: call(*[each(frame) for each in arguments])


def _linear(call: Callable[..., Any], arguments: list[Code]) -> Code:
    def called(frame: Frame) -> Any:
        values = [each(frame) for each in arguments]
        _spend(frame, sum(map(size_of, values)) // 10)
        return call(*values)

    return called


def _dispatched(candidates: list[Function], arguments: list[Code]) -> Code:
    def called(frame: Frame) -> Any:
        values = [each(frame) for each in arguments]
        for function in candidates:
            if function.accepts(values):
                _spend(frame, sum(map(size_of, values)) // 10)
                return function.call(*values)
        raise no_overload()

    return called


def _spend(frame: Frame, cost: int) -> None:
    frame[0] -= cost
    if frame[0] < 0:
        raise CostExceeded("operation cancelled: actual cost limit exceeded")


def _pairs(values: Any, *, both: bool) -> Iterable[tuple[Any, Any]]:
    """What a loop is over: keys and values, indices and items; one variable stands for a key, or an item."""
    if is_object(values):
        return values.items() if both else ((key, None) for key in values)
    if is_array(values):
        return enumerate(values) if both else ((each, None) for each in values)
    raise no_overload()


_Turns: TypeAlias = Callable[[Frame], Iterator[None]]


def _turns(over: Code, places: list[int], cost: int) -> _Turns:
    """The turns of a loop: each puts the loop's variables into the frame, and takes its cost from the budget."""
    first = places[0]
    second = places[1] if len(places) > 1 else 0

    def turns(frame: Frame) -> Iterator[None]:
        for left, right in _pairs(over(frame), both=bool(second)):
            frame[0] -= cost
            if frame[0] < 0:
                raise CostExceeded("operation cancelled: actual cost limit exceeded")
            frame[first] = left
            if second:
                frame[second] = right
            yield

    return turns


def _all(turns: _Turns, body: Code) -> Code:
    """False as soon as one is; an error only when none is false."""

    def every(frame: Frame) -> bool:
        failed: EvaluationError | None = None
        for _ in turns(frame):
            try:
                if not _true(body(frame)):
                    return False
            except EvaluationError as error:
                failed = error
        if failed is not None:
            raise failed
        return True

    return every


def _exists(turns: _Turns, body: Code) -> Code:
    """True as soon as one is; an error only when none is true."""

    def some(frame: Frame) -> bool:
        failed: EvaluationError | None = None
        for _ in turns(frame):
            try:
                if _true(body(frame)):
                    return True
            except EvaluationError as error:
                failed = error
        if failed is not None:
            raise failed
        return False

    return some


def _map_list(turns: _Turns, body: Code, result: Code | None) -> Code:
    if result is None:
        return lambda frame: [body(frame) for _ in turns(frame)]
    return lambda frame: [result(frame) for _ in turns(frame) if _true(body(frame))]


def _optional_map(over: Code, place: int, body: Code, *, flat: bool) -> Code:
    def mapped(frame: Frame) -> Any:
        value = over(frame)
        if value.__class__ is not Optional:
            raise no_overload()
        if not value.present:
            return NONE
        frame[place] = value.value
        return body(frame) if flat else Optional(body(frame))

    return mapped


def _sort_by(turns: _Turns, place: int, body: Code) -> Code:
    def ordered(frame: Frame) -> list[Any]:
        pairs = [(frame[place], body(frame)) for _ in turns(frame)]
        return sorted_by([value for value, _ in pairs], [key for _, key in pairs])

    return ordered


def _transform_map(turns: _Turns, place: int, body: Code, result: Code | None) -> Code:
    def transformed(frame: Frame) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        for _ in turns(frame):
            if result is None:
                out[frame[place]] = body(frame)
            elif _true(body(frame)):
                out[frame[place]] = result(frame)
        return out

    return transformed


def _transform_entries(turns: _Turns, body: Code, result: Code | None) -> Code:
    def transformed(frame: Frame) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        for _ in turns(frame):
            if result is not None and not _true(body(frame)):
                continue
            for key, value in (body if result is None else result)(frame).items():
                if key in out:
                    raise EvaluationError(f"insert failed: key {key} already exists")
                out[key] = value
        return out

    return transformed


def _cost_of(expression: Expr) -> int:
    """What one evaluation costs without its loops: one for each variable, selection and call."""
    match expression:
        case Literal():
            return 0
        case Ident():
            return 1
        case Select() | Has():
            return 1 + _cost_of(expression.operand)
        case Call():
            return 1 + sum(map(_cost_of, expression.arguments))
        case ListExpr():
            return 10 + sum(map(_cost_of, expression.items))
        case MapExpr():
            return 30 + sum(_cost_of(key) + _cost_of(value) for key, value in expression.entries)
        case Macro():
            return 1 + _cost_of(expression.range)
        case _:
            raise AssertionError(expression)
