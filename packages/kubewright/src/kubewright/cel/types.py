"""The types of expressions, and which type is assignable to which.

A type that comes from a schema also has the maximum size of a value, for cost estimates. Sizes do not matter for the
equality of types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

UNBOUNDED: Final = 2**63
_SHOWN: Final = {
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    "null_type": "null",
}


@dataclass(frozen=True, slots=True)
class Type:
    """A type: simple, with parameters (`list(int)`), or an object with fields."""

    name: str
    parameters: tuple[Type, ...] = ()
    fields: Mapping[str, Type] | None = field(default=None, compare=False)
    """The types of an object's fields; None for any other type."""
    max_size: int = field(default=UNBOUNDED, compare=False)
    """The maximum number of characters, items or entries of a value."""
    min_serialized: int = field(default=1, compare=False)
    """The minimum number of bytes of a value in a request."""
    list_keys: tuple[str, ...] | None = field(default=None, compare=False)
    """The keys of a list of type map; empty for a list of type set; None for any other list."""

    def __str__(self) -> str:
        """The type as cel-go's messages name it."""
        name = "dyn" if self.is_variable else _SHOWN.get(self.name, self.name)
        return f"{name}({', '.join(map(str, self.parameters))})" if self.parameters else name

    @property
    def declared_name(self) -> str:
        """The type as declarations name it, with the full names of durations and timestamps."""
        parameters = ", ".join(each.declared_name for each in self.parameters)
        return f"{self.name}({parameters})" if parameters else "dyn" if self.is_variable else self.name

    @property
    def is_variable(self) -> bool:
        """Whether this is a type variable: in the signature of a function, or of the items of an empty list."""
        return len(self.name) == 1

    @property
    def is_dynamic(self) -> bool:
        """Whether the type of the values is not known before the evaluation."""
        return self.name == "dyn" or self.is_variable


BOOL: Final = Type("bool")
BYTES: Final = Type("bytes")
DOUBLE: Final = Type("double")
DURATION: Final = Type("google.protobuf.Duration")
DYN: Final = Type("dyn")
ERROR: Final = Type("!error!")
INT: Final = Type("int")
NULL: Final = Type("null_type")
STRING: Final = Type("string")
TIMESTAMP: Final = Type("google.protobuf.Timestamp")
UINT: Final = Type("uint")
UNKNOWN: Final = Type("_")
"""The type of the items of an empty list or map, which fits to any other."""

OBJECT: Final = Type("Object")
"""The type of `Object{...}`, which describes the changed fields of an object. Its fields have types such as
`Object.spec`, and any field may be set.
"""
VARIABLES: Final = Type("kubernetes.variables")
"""The type of `variables` in a policy. The fields are the variables that come before the expression."""
JSON_PATCH: Final = Type("JSONPatch", fields={"op": STRING, "path": STRING, "from": STRING, "value": DYN})

_NAMES: Final = {"duration": DURATION, "timestamp": TIMESTAMP, "null": NULL}
_PRIMITIVE: Final = frozenset({"bool", "bytes", "double", "int", "string", "uint"})


def is_object_name(name: str) -> bool:
    """Return whether this is `Object` or the name of the type of one of its fields."""
    return name == OBJECT.name or name.startswith(f"{OBJECT.name}.")


def list_of(item: Type, max_size: int = UNBOUNDED) -> Type:
    return Type("list", (item,), max_size=max_size, min_serialized=2)


def map_of(key: Type, value: Type, max_size: int = UNBOUNDED) -> Type:
    return Type("map", (key, value), max_size=max_size, min_serialized=2)


def optional_of(value: Type) -> Type:
    return Type("optional_type", (value,))


def type_of(value: Type) -> Type:
    return Type("type", (value,))


def join(types: list[Type]) -> Type:
    """Return the type of a list's items: their common type, or else `dyn`."""
    found: Type | None = None
    for each in types:
        if found is None or assignable(each, found):
            found = more_specific(each, found or UNKNOWN)
        elif not assignable(found, each):
            return DYN
    return found or UNKNOWN


def more_specific(left: Type, right: Type) -> Type:
    """Return `left`, or `right` if `left` has an empty list or map where `right` has one with a known type."""
    if left.is_variable:
        return right
    if left.name != right.name or len(left.parameters) != len(right.parameters) or not left.parameters:
        return left
    return replace(left, parameters=tuple(map(more_specific, left.parameters, right.parameters)))


def settled(type: Type) -> Type:
    """Return `type` with `dyn` where it has an empty list or map."""
    if type.is_variable:
        return DYN
    return replace(type, parameters=tuple(map(settled, type.parameters))) if type.parameters else type


def assignable(wanted: Type, given: Type) -> bool:
    """Return whether a `given` type is assignable to a `wanted` one."""
    return unify(wanted, given, {})


def unify(wanted: Type, given: Type, bound: dict[str, Type]) -> bool:
    """Return whether `given` is assignable to `wanted`, and collect the values of its type variables in `bound`."""
    if wanted.is_variable:
        return _bind(wanted.name, given, bound)
    if given.is_variable or DYN in (wanted, given) or ERROR in (wanted, given):
        return True
    if given == NULL and wanted != NULL:
        return wanted.name not in _PRIMITIVE and wanted.name not in ("list", "map", "type")
    if wanted.name != given.name or len(wanted.parameters) != len(given.parameters):
        return wanted.name == given.name == "type"
    return all(unify(mine, theirs, bound) for mine, theirs in zip(wanted.parameters, given.parameters, strict=True))


def _bind(name: str, given: Type, bound: dict[str, Type]) -> bool:
    known = bound.get(name)
    if known is None or known == DYN:
        bound[name] = given if known is None else known
        return True
    if known.is_variable or given.is_variable:
        bound[name] = more_specific(given, known)
        return True
    if assignable(known, given):
        bound[name] = DYN if given == DYN else more_specific(known, given)
        return True
    if assignable(given, known):
        bound[name] = given
        return True
    return False


def substitute(type: Type, bound: Mapping[str, Type]) -> Type:
    """Return `type` with its variables replaced by their values, or by `dyn` if unknown."""
    if type.is_variable:
        return bound.get(type.name, DYN)
    if not type.parameters:
        return type
    return Type(type.name, tuple(substitute(each, bound) for each in type.parameters))


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters and result of a function. The first parameter of a member function is its receiver."""

    function: str
    member: bool
    parameters: tuple[Type, ...]
    result: Type


_TOKEN: Final = re.compile(r"[\w.@!?:\-\[\]<>=+*/%&|]+|[(),]")


def parse_type(text: str) -> Type:
    """Parse a type as it is printed; also the short names `duration`, `timestamp` and `null`, and one-letter
    variables.
    """
    tokens = _TOKEN.findall(text)
    found, rest = _parse(tokens)
    if rest:
        raise ValueError(f"not a type: {text}")
    return found


def _parse(tokens: list[str]) -> tuple[Type, list[str]]:
    name, *rest = tokens
    parameters: list[Type] = []
    if rest and rest[0] == "(":
        while rest[0] != ")":
            parameter, rest = _parse(rest[1:])
            parameters.append(parameter)
        rest = rest[1:]
    return _NAMES.get(name) or Type(name, tuple(parameters)), rest


_NAMESPACES: Final = frozenset({"format", "ip", "jsonpatch", "lists", "optional", "sets", "strings"})
"""Prefixes that look like a receiver in a signature but are part of the function's name."""


def parse_signature(text: str) -> Signature:
    """Parse `string.contains(string) -> bool`, `size(list(T)) -> int` or `optional.of(T) -> optional_type(T)`."""
    call, _, result = text.partition(" -> ")
    opening = _opening(call)
    receiver, _, name = call[:opening].rpartition(".") if ")" not in call[:opening] else _after_type(call[:opening])
    arguments = list(parse_type(f"x{call[opening:]}").parameters) if call[opening:] != "()" else []
    if receiver in _NAMESPACES or not receiver:
        return Signature(call[:opening], False, tuple(arguments), parse_type(result))
    return Signature(name, True, (parse_type(receiver), *arguments), parse_type(result))


def _opening(call: str) -> int:
    """Return the position of the bracket that matches the last one."""
    depth = 0
    for place in range(len(call) - 1, -1, -1):
        depth += (call[place] == ")") - (call[place] == "(")
        if depth == 0:
            return place
    raise ValueError(f"not a signature: {call}")


def _after_type(text: str) -> tuple[str, str, str]:
    end = text.rindex(")") + 1
    return text[:end], ".", text[end + 1 :]
