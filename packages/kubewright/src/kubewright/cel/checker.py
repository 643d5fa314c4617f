"""Type checking: the type of each part of an expression, and whether every function accepts its arguments.

The checker records the type on each node. A call whose argument types are known has one result type. If one of them
is `dyn`, several candidates may remain, and the choice is made at run time.

Follows https://github.com/google/cel-spec/blob/master/doc/langdef.md#gradual-type-checking and cel-go's messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kubewright.cel.functions import Function
from kubewright.cel.parser import qualified_name
from kubewright.cel.syntax import (
    Call,
    CompileError,
    Expr,
    Has,
    Ident,
    ListExpr,
    Literal,
    Macro,
    MapExpr,
    Select,
    StructExpr,
    shown,
)  # fmt: skip
from kubewright.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    JSON_PATCH,
    NULL,
    STRING,
    UINT,
    Type,
    assignable,
    is_object_name,
    join,
    list_of,
    map_of,
    more_specific,
    optional_of,
    settled,
    substitute,
    type_of,
    unify,
)  # fmt: skip
from kubewright.cel.values import UInt
from kubewright.machinery import time
from kubewright.machinery.cel_names import escape, is_reserved
from kubewright.machinery.patterns import compile_pattern

TYPE_NAMES: Final[Mapping[str, Type]] = {
    **{name: type_of(Type(name)) for name in ("bool", "bytes", "double", "int", "null_type", "string", "uint")},
    "list": type_of(list_of(DYN)),
    "map": type_of(map_of(DYN, DYN)),
    "optional_type": type_of(optional_of(DYN)),
    "type": type_of(Type("type")),
}
"""The types that have a name in source code."""

_QUALIFIED_TYPE_NAMES: Final = frozenset(
    {
        "google.protobuf.Timestamp", "google.protobuf.Duration", "net.IP", "net.CIDR", "kubernetes.Quantity",
        "kubernetes.URL", "kubernetes.Semver",
    }
)  # fmt: skip
"""Names of types that are written as selections."""


def is_type_name(expression: Expr) -> bool:
    """Return whether a selection is the name of a type."""
    return qualified_name(expression) in _QUALIFIED_TYPE_NAMES


_LITERALS: Final[Mapping[type, Type]] = {
    bool: BOOL, bytes: BYTES, float: DOUBLE, int: INT, str: STRING, UInt: UINT, type(None): NULL,
}  # fmt: skip


_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "matches": compile_pattern, "duration": time.parse_duration, "timestamp": time.parse,
}  # fmt: skip
_WRITTEN_OUT: Final = {"matches": 1, "duration": 0, "timestamp": 0}
"""The argument of each of these functions that is checked if it is a literal."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The variables and functions that an expression may use."""

    variables: Mapping[str, Type]
    functions: Mapping[str, tuple[Function, ...]]
    patches: bool = False
    """Whether an expression may construct the values that describe a change: `Object{}` and `JSONPatch{}`."""


def check(source: str, expression: Expr, environment: Environment) -> Type:
    """Record the type of every node, and return that of the expression. Raises CompileError that lists all errors."""
    checker = _Checker(environment)
    found = checker.check(expression, dict(environment.variables))
    errors = checker.errors or checker.literal_errors
    if errors:
        raise CompileError(shown(source, errors))
    return settled(found)


class _Checker:
    def __init__(self, environment: Environment) -> None:
        self._functions = environment.functions
        self._patches = environment.patches
        self.errors: list[tuple[int, str]] = []
        self.literal_errors: list[tuple[int, str]] = []
        """Errors in literals, which are reported if all types are correct."""

    def check(self, expression: Expr, scope: Mapping[str, Type]) -> Type:
        match expression:
            case Literal():
                found = _LITERALS[expression.value.__class__]
            case Ident():
                found = self._ident(expression, scope)
            case Select():
                found = self._select(expression, scope)
            case Has():
                self._field(expression, self.check(expression.operand, scope), expression.field)
                found = BOOL
            case Call():
                found = self._call(expression, scope)
            case ListExpr():
                found = self._list(expression, scope)
            case MapExpr():
                found = self._map(expression, scope)
            case StructExpr():
                found = self._struct(expression, scope)
            case Macro():
                found = self._macro(expression, scope)
            case _:
                raise AssertionError(expression)
        expression.type = found
        return found

    def _error(self, at: int, text: str) -> Type:
        self.errors.append((at, text))
        return ERROR

    def _ident(self, expression: Ident, scope: Mapping[str, Type]) -> Type:
        found = scope.get(expression.name) or TYPE_NAMES.get(expression.name)
        return found or self._error(expression.at, f"undeclared reference to '{expression.name}' (in container '')")

    def _select(self, expression: Select, scope: Mapping[str, Type]) -> Type:
        if is_type_name(expression):
            return type_of(Type(qualified_name(expression)))
        found = self._field(expression, self.check(expression.operand, scope), expression.field)
        already = expression.operand.type.name == "optional_type"
        return optional_of(found) if expression.optional and not already else found

    def _field(self, expression: Select | Has, operand: Type, field: str) -> Type:
        if operand.name == "optional_type":
            inner = self._field(expression, operand.parameters[0], field)
            return optional_of(inner)
        if operand.is_dynamic or operand == ERROR or is_object_name(operand.name):
            return DYN
        if operand.name == "map":
            return operand.parameters[1]
        if operand.name.startswith("kubernetes.authorization."):
            found = (operand.fields or {}).get(field)
            return found or self._error(expression.at, f"unexpected failed resolution of '{operand.name}'")
        if operand.fields is None:
            return self._error(expression.at, f"type '{operand}' does not support field selection")
        found = operand.fields.get(field)
        if found is None and is_reserved(field):
            found = operand.fields.get(escape(field) or field)
        return found or self._error(expression.at, f"undefined field '{field}'")

    def _struct(self, expression: StructExpr, scope: Mapping[str, Type]) -> Type:
        name = expression.name
        if not (self._patches and (name == JSON_PATCH.name or is_object_name(name))):
            return self._error(expression.at, f"undeclared reference to '{name}' (in container '')")
        fields = JSON_PATCH.fields if name == JSON_PATCH.name else None
        for field in expression.fields:
            found = self.check(field.value, scope)
            given = _unwrapped(found, optional=field.optional)
            wanted = DYN if fields is None else fields.get(field.name)
            if field.optional and found.name != "optional_type" and not found.is_dynamic:
                self._error(field.value.at, f"expected type 'optional_type({found})' but found '{found}'")
            if wanted is None:
                self._error(field.at, f"expected type of field '{field.name}' is '' but provided type is '{given}'")
            elif not assignable(wanted, given):
                text = f"expected type of field '{field.name}' is '{wanted}' but provided type is '{given}'"
                self._error(field.at, text)
        return Type(name, fields=fields)

    def _call(self, expression: Call, scope: Mapping[str, Type]) -> Type:
        given = [self.check(each, scope) for each in expression.arguments]
        candidates = self._functions.get(expression.function)
        if candidates is None:
            return self._error(expression.at, f"undeclared reference to '{expression.function}' (in container '')")
        if ERROR in given:
            return ERROR
        self._check_literals(expression)
        results: list[Type] = []
        for candidate in candidates:
            bound: dict[str, Type] = {}
            signature = candidate.signature
            if (
                signature.member == expression.member
                and len(signature.parameters) == len(given)
                and all(unify(wanted, each, bound) for wanted, each in zip(signature.parameters, given, strict=True))
            ):
                results.append(_result(expression, substitute(signature.result, bound), given))
        if not results:
            return self._error(expression.at, _no_overload(expression, given))
        return results[0] if all(each == results[0] for each in results) else DYN

    def _check_literals(self, expression: Call) -> None:
        """Check a pattern, duration or timestamp that is a literal."""
        place = _WRITTEN_OUT.get(expression.function)
        if place is None or not place < len(expression.arguments):
            return
        argument = expression.arguments[place]
        if isinstance(argument, Literal) and isinstance(argument.value, str):
            try:
                _READERS[expression.function](argument.value)
            except ValueError:
                self.literal_errors.append((argument.at, f"invalid {expression.function} argument"))

    def _list(self, expression: ListExpr, scope: Mapping[str, Type]) -> Type:
        found = [self.check(each, scope) for each in expression.items]
        types = [_unwrapped(each, optional=i in expression.optional) for i, each in enumerate(found)]
        if not expression.mixed:
            self._same(expression.items, types)
        return list_of(join(types), len(types))

    def _map(self, expression: MapExpr, scope: Mapping[str, Type]) -> Type:
        keys = [self.check(key, scope) for key, _ in expression.entries]
        found = [self.check(value, scope) for _, value in expression.entries]
        values = [_unwrapped(each, optional=i in expression.optional) for i, each in enumerate(found)]
        self._same([key for key, _ in expression.entries], keys)
        self._same([value for _, value in expression.entries], values)
        return map_of(join(keys), join(values), len(keys))

    def _same(self, parts: list[Expr], types: list[Type]) -> None:
        """Check that a list or map literal holds values of one type."""
        for part, found in zip(parts, types, strict=True):
            if not (assignable(types[0], found) or assignable(found, types[0])):
                self._error(part.at, f"expected type '{types[0]}' but found '{found}'")
                return

    def _macro(self, expression: Macro, scope: Mapping[str, Type]) -> Type:
        over = self.check(expression.range, scope)
        if over == ERROR:
            return ERROR
        if expression.name in ("optMap", "optFlatMap"):
            return self._optional_macro(expression, over, scope)
        inner = {**scope, **self._loop_variables(expression, over)}
        body = self.check(expression.body, inner)
        result = self.check(expression.result, inner) if expression.result is not None else body
        if expression.name in ("all", "exists", "exists_one", "filter") or expression.result is not None:
            self._must_be_bool(expression.body, body)
        match expression.name:
            case "all" | "exists" | "exists_one":
                return BOOL
            case "filter" | "sortBy":
                return list_of(self._item(over), over.max_size)
            case "map" | "transformList":
                return list_of(result, over.max_size)
            case "transformMap":
                key = over.parameters[0] if over.name == "map" else INT
                return map_of(key, result, over.max_size)
            case _:
                return result if result.name == "map" else map_of(DYN, DYN, over.max_size)

    def _optional_macro(self, expression: Macro, over: Type, scope: Mapping[str, Type]) -> Type:
        if over.name != "optional_type" and not over.is_dynamic:
            return self._error(expression.at, f"found no matching overload for '{expression.name}' applied to '{over}'")
        inner = over.parameters[0] if over.parameters else DYN
        body = self.check(expression.body, {**scope, expression.variables[0]: inner})
        return optional_of(body) if expression.name == "optMap" else body

    def _loop_variables(self, expression: Macro, over: Type) -> dict[str, Type]:
        if over.name not in ("list", "map") and not over.is_dynamic:
            text = f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)"
            self._error(expression.range.at, text)
            return dict.fromkeys(expression.variables, DYN)
        if len(expression.variables) == 1:
            return {expression.variables[0]: self._item(over)}
        if over.is_dynamic:
            return dict.fromkeys(expression.variables, DYN)
        key, value = over.parameters if over.name == "map" else (INT, over.parameters[0])
        return dict(zip(expression.variables, (key, value), strict=True))

    def _item(self, over: Type) -> Type:
        return over.parameters[0] if over.parameters else DYN

    def _must_be_bool(self, expression: Expr, found: Type) -> None:
        if not assignable(BOOL, found):
            self._error(expression.at, f"expected type 'bool' but found '{found}'")


def _unwrapped(type: Type, *, optional: bool) -> Type:
    return type.parameters[0] if optional and type.name == "optional_type" else type


def _result(expression: Call, result: Type, given: list[Type]) -> Type:
    """Return the result type, with what is known of its fields and sizes. A list's items have the list's item type."""
    if expression.function in ("_[_]", "_[?_]"):
        is_optional = given[0].name == "optional_type"
        container = _unwrapped(given[0], optional=is_optional)
        if container.parameters:
            inner = container.parameters[-1]
            return optional_of(inner) if is_optional or expression.function == "_[?_]" else inner
    if expression.function == "_?_:_":
        if DYN in given[1:]:
            return DYN
        return more_specific(given[1], given[2]) if assignable(given[1], given[2]) else given[2]
    return result


def _no_overload(expression: Call, given: list[Type]) -> str:
    shown_types = [str(each) for each in given]
    if expression.member:
        arguments = f"{shown_types[0]}.({', '.join(shown_types[1:])})"
    else:
        arguments = f"({', '.join(shown_types)})"
    return f"found no matching overload for '{expression.function}' applied to '{arguments}'"
