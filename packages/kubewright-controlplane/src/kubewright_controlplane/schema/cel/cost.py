"""The worst case of an expression's cost, estimated from the sizes in the schema.

A rule that could cost too much is rejected with its CRD, before it is evaluated on any object. One unit is a step of
the interpreter, about 50 ns in cel-go.

The sizes of values that are selected from a document are those in its schema, found by their paths (`self`, `spec`,
`items`, `@items`). Other sizes are tracked through calls and loops as far as cel-go tracks them, and unlimited
otherwise. A rule is accepted or rejected by these numbers, so they also follow cel-go where it is imprecise: two
paths may share their storage, and the longer one may overwrite the other's last name.

Follows cel-go's checker/cost.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubewright.cel.calls import candidates
from kubewright.cel.checker import is_type_name
from kubewright.cel.library import functions
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
from kubewright.cel.types import Signature, Type
from kubewright_controlplane.schema.cel.callcosts import Argument, call_cost
from kubewright_controlplane.schema.cel.expansion import ACCUMULATOR, Again, Bind, Loop, expanded
from kubewright_controlplane.schema.cel.sizes import UNKNOWN, Size, added, fixed, multiplied

RULE_LIMIT: Final = 10_000_000
"""The limit for one expression, summed over all values that it is evaluated on."""
SCHEMA_LIMIT: Final = 100_000_000
"""The limit for all expressions of a schema together."""

_NEW_LIST: Final = 10
_NEW_MAP: Final = 30
_NEW_STRUCT: Final = 40
_PARTS: Final = {"list": "@items", "map": "@values"}
_SCALARS: Final = frozenset(
    {"bool", "double", "google.protobuf.Duration", "int", "google.protobuf.Timestamp", "uint"}
)  # fmt: skip


def estimate(expression: Expr, root: Type) -> int:
    """Return the maximum cost of `expression`, whose types are recorded. `root` is the type of `self`."""
    return _Estimator(root).cost(expression)


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


class _Path:
    """The names that lead to a value. A path and those that extend it share their storage, as slices in Go do."""

    __slots__ = ("_length", "_names")

    def __init__(self, names: list[str | None], length: int) -> None:
        self._names = names
        self._length = length

    @property
    def names(self) -> list[str | None]:
        return self._names[: self._length]

    def __truediv__(self, name: str) -> _Path:
        """Return the path of a part. It overwrites the part that was asked for before, if there is room in storage."""
        if self._length == len(self._names):
            room: list[str | None] = [None] * (max(2 * self._length, 1) - self._length)
            longer = _Path([*self._names, *room], self._length + 1)
        else:
            longer = _Path(self._names, self._length + 1)
        longer._names[self._length] = name
        return longer


_NOWHERE: Final = _Path([], 0)
"""The path of a value that is not selected from a document."""


@dataclass(frozen=True, slots=True)
class _Entries:
    """The sizes of what a list or map holds."""

    is_list: bool
    key: Size
    value: Size

    def __or__(self, other: _Entries) -> _Entries:
        return _Entries(self.is_list, self.key | other.key, self.value | other.value)


def _either(left: _Entries | None, right: _Entries | None) -> _Entries | None:
    return None if left is None or right is None else left | right


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable of a loop or binding."""

    path: _Path
    size: Size | None
    entries: _Entries | None = None


class _Estimator:
    def __init__(self, root: Type) -> None:
        self._root = root
        self._functions = functions()
        self._variables: dict[str, list[_Variable]] = {}
        self._costs: dict[Expr, int] = {}
        self._paths: dict[Expr, _Path] = {}
        self._sizes: dict[Expr, Size] = {}
        self._entries: dict[Expr, _Entries] = {}

    def cost(self, expression: Expr) -> int:
        found = self._cost(expression)
        self._costs[expression] = found
        return found

    def _cost(self, expression: Expr) -> int:
        match expression:
            case Ident():
                variable = self._variable(expression)
                self._paths[expression] = _NOWHERE / expression.name if variable is None else variable.path
                return 1
            case Select():
                return self._select(expression)
            case Has():
                return self.cost(expression.operand)
            case Call():
                return self._call(expression)
            case ListExpr():
                return self._list(expression)
            case MapExpr():
                return self._map(expression)
            case StructExpr():
                return added(_NEW_STRUCT, *[self.cost(field.value) for field in expression.fields])
            case Macro():
                return self._macro(expression)
            case Loop():
                return self._loop(expression)
            case Bind():
                return self._bind(expression)
            case Again():
                self._copy_sizes(expression, expression.first)
                self._paths[expression] = self._path(expression.first)
                return self._costs[expression.first]
            case _:
                return 0

    def _variable(self, expression: Expr) -> _Variable | None:
        if not isinstance(expression, Ident):
            return None
        known = self._variables.get(expression.name)
        return known[-1] if known else None

    def _push(self, name: str, variable: _Variable) -> None:
        self._variables.setdefault(name, []).append(variable)

    def _select(self, expression: Select) -> int:
        if is_type_name(expression):
            self._paths[expression] = _NOWHERE / "type"
            return 1
        cost = self.cost(expression.operand)
        if expression.optional:
            return added(cost, 1)
        of = expression.operand.type
        self._paths[expression] = self._path(expression.operand) / expression.field
        return added(cost, 1) if of.fields is not None or of.name == "map" else cost

    def _list(self, expression: ListExpr) -> int:
        cost = added(_NEW_LIST, *map(self.cost, expression.items))
        self._entries[expression] = _Entries(True, fixed(1), self._any_of(expression.items))
        return cost

    def _map(self, expression: MapExpr) -> int:
        cost = added(_NEW_MAP, *[added(self.cost(key), self.cost(value)) for key, value in expression.entries])
        keys = self._any_of([key for key, _ in expression.entries])
        values = self._any_of([value for _, value in expression.entries])
        self._entries[expression] = _Entries(False, keys, values)
        return cost

    def _any_of(self, expressions: list[Expr]) -> Size:
        sizes = [self._size_or_unknown(each) for each in expressions]
        return Size(min(each.least for each in sizes), max(each.most for each in sizes)) if sizes else fixed(0)

    def _macro(self, expression: Macro) -> int:
        meaning = expanded(expression)
        cost = self.cost(meaning)
        self._copy_sizes(expression, meaning)
        return cost

    def _bind(self, expression: Bind) -> int:
        start = added(_NEW_LIST, self.cost(expression.value))
        value = expression.value
        self._push(expression.name, _Variable(self._path(value), self._size(value), self._entries_of(value)))
        cost = self.cost(expression.body)
        self._variables[expression.name].pop()
        self._copy_sizes(expression, expression.body)
        return added(start, cost)

    def _loop(self, expression: Loop) -> int:
        over, start = expression.range, expression.start
        cost = added(self.cost(over), self.cost(start))
        self._push(ACCUMULATOR, _Variable(self._path(start), self._size(start), self._entries_of(start)))
        self._push_variables(expression.variables, over)
        turn = added(self.cost(expression.condition), self.cost(expression.step))
        for name in expression.variables:
            self._variables[name].pop()
        cost = added(cost, self.cost(expression.result))
        self._variables[ACCUMULATOR].pop()
        count = self._size_or_unknown(over)
        self._set_sizes(expression, count)
        return added(cost, multiplied(count.most, turn))

    def _push_variables(self, names: list[str], over: Expr) -> None:
        entries = self._entries_of(over)
        is_list = over.type.name == "list" if entries is None else entries.is_list
        key, value = (None, None) if entries is None else (entries.key, entries.value)
        path = self._path(over)
        of_key = _Variable(path / ("@indices" if is_list else "@keys"), key)
        if len(names) == 1:
            self._push(names[0], _Variable(path / "@items", value) if is_list else of_key)
            return
        self._push(names[0], of_key)
        self._push(names[1], _Variable(path / ("@items" if is_list else "@values"), value))

    def _set_sizes(self, loop: Loop, count: Size) -> None:
        if isinstance(loop.start, Literal):
            self._keep_size(loop, self._size(loop.start))
            return
        self._sizes[loop] = count
        if (entries := self._entries_of(loop.step)) is not None:
            self._entries[loop] = entries

    def _call(self, expression: Call) -> int:
        if expression.function == "dyn":
            cost = self.cost(expression.arguments[0])
            self._copy_sizes(expression, expression.arguments[0])
            return added(cost, 1)
        receivers = 1 if expression.member else 0
        order = [*range(receivers, len(expression.arguments)), *range(receivers)]
        costs = [0] * len(order)
        known: list[Size | None] = [None] * len(order)
        for place in order:
            costs[place] = self.cost(expression.arguments[place])
            known[place] = self._size(expression.arguments[place])
        match expression.function:
            case "_&&_" | "_||_":
                return added(*costs)
            case "_?_:_":
                self._choose(expression)
                return added(costs[0], max(costs[1:]))
            case _:
                arguments = [self._argument(*each) for each in zip(expression.arguments, known, strict=True)]
                return added(self._overloads(expression, arguments), *costs)

    def _choose(self, expression: Call) -> None:
        _, chosen, other = expression.arguments
        entries = _either(self._entries_of(chosen), self._entries_of(other))
        if entries is not None:
            self._entries[expression] = entries
        self._sizes[expression] = self._size_or_unknown(chosen) | self._size_or_unknown(other)

    def _argument(self, expression: Expr, known: Size | None) -> Argument:
        items = UNKNOWN
        if expression.type.parameters and (names := self._path(expression).names):
            found = self._declared([*names, "@items"])
            items = UNKNOWN if found is None else found
        return Argument(expression, known, items)

    def _overloads(self, expression: Call, arguments: list[Argument]) -> int:
        """Return the cost of the most expensive overload, and record the size of the result."""
        most = 0
        size: Size | None = None
        for overload in self._signatures(expression):
            found = call_cost(arguments, overload)
            most = max(most, found.cost)
            if found.size is not None:
                size = found.size if size is None else size | found.size
            if expression.function == "_+_":
                self._join_entries(expression)
            elif expression.function == "_[_]" and overload.parameters[0].name in _PARTS:
                size = self._index(expression, _PARTS[overload.parameters[0].name])
            if size is None:
                size = self._size(expression)
        self._keep_size(expression, size)
        return most

    def _signatures(self, expression: Call) -> list[Signature]:
        if expression.function not in self._functions:  # it comes from the expansion of a macro
            types = tuple(each.type for each in expression.arguments)
            return [Signature(expression.function, expression.member, types, expression.type)]
        return [each.signature for each in candidates(expression, self._functions)]

    def _join_entries(self, expression: Call) -> None:
        left, right = expression.arguments
        entries = _either(self._entries_of(left), self._entries_of(right))
        if entries is not None:
            self._entries[expression] = entries

    def _index(self, expression: Call, name: str) -> Size | None:
        container = expression.arguments[0]
        self._paths[expression] = self._path(container) / name
        entries = self._entries_of(container)
        return None if entries is None else entries.value

    def _path(self, expression: Expr) -> _Path:
        variable = self._variable(expression)
        return self._paths.get(expression, _NOWHERE) if variable is None else variable.path

    def _keep_size(self, expression: Expr, size: Size | None) -> None:
        if size is not None:
            self._sizes[expression] = size

    def _copy_sizes(self, to: Expr, of: Expr) -> None:
        self._keep_size(to, self._size(of))
        if (entries := self._entries_of(of)) is not None:
            self._entries[to] = entries

    def _entries_of(self, expression: Expr) -> _Entries | None:
        known = self._entries.get(expression)
        if known is None and (variable := self._variable(expression)) is not None:
            return variable.entries
        return known

    def _size_or_unknown(self, expression: Expr) -> Size:
        size = self._size(expression)
        return UNKNOWN if size is None else size

    def _size(self, expression: Expr) -> Size | None:
        """Return the size of a value: what was computed, or is visible, or is in the schema, or follows from its
        type; None if it is unknown.
        """
        known = self._sizes.get(expression) or _visible_size(expression)
        if known is not None:
            return known
        declared = self._declared(self._path(expression).names)
        if declared is not None:
            self._sizes[expression] = declared
            return declared
        if _is_scalar(expression.type):
            return fixed(1)
        variable = self._variable(expression)
        return None if variable is None else variable.size

    def _declared(self, names: list[str | None]) -> Size | None:
        """Return the size of the values at a path below `self`."""
        if not names:
            return None
        found = self._root
        for name in names[1:]:
            part = _part(found, name)
            if part is None:
                return None
            found = part
        return Size(0, found.max_size)


def _part(of: Type, name: str | None) -> Type | None:
    if name in ("@items", "@values"):
        return of.parameters[-1] if of.parameters else None
    if name == "@keys":
        return of.parameters[0] if of.name == "map" else None
    return None if of.fields is None or name is None else of.fields.get(name)


def _visible_size(expression: Expr) -> Size | None:
    match expression:
        case Literal(value=str() | bytes() as value):
            return fixed(len(value))
        case Literal():
            return fixed(1)
        case ListExpr():
            return fixed(len(expression.items))
        case MapExpr():
            return fixed(len(expression.entries))
        case _:
            return None


def _is_scalar(type: Type) -> bool:
    return _is_scalar(type.parameters[0]) if type.name == "optional_type" else type.name in _SCALARS
