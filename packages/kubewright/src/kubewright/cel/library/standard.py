"""Operators, sizes, conversions, types.

Follows https://github.com/google/cel-spec/blob/master/doc/langdef.md#list-of-standard-definitions.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kubewright.cel.functions import Function, library
from kubewright.cel.values import (
    EvaluationError,
    TypeValue,
    UInt,
    checked_int,
    checked_uint,
    comparable,
    contains,
    divided,
    equal,
    item,
    minus,
    modulo,
    negated,
    plus,
    times,
    type_name,
)  # fmt: skip
from kubewright.machinery import time
from kubewright.machinery.json import number

_NUMBERS: Final = ("int", "uint", "double")
_COMPARABLE: Final = ("bool", "string", "bytes", "timestamp", "duration")


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def ordered(left: Any, right: Any) -> bool:
        comparable(left, right)
        return compare(left, right)

    return ordered


def _orderings() -> tuple[Function, ...]:
    pairs = [(each, each) for each in _COMPARABLE] + [(left, right) for left in _NUMBERS for right in _NUMBERS]
    orders = {"_<_": operator.lt, "_<=_": operator.le, "_>_": operator.gt, "_>=_": operator.ge}
    return library(
        *(
            (f"{name}({left}, {right}) -> bool", _ordered(compare))
            for name, compare in orders.items()
            for left, right in pairs
        )
    )


def _arithmetic() -> tuple[Function, ...]:
    operations = {"_+_": plus, "_-_": minus, "_*_": times, "_/_": divided}
    entries = [(f"{name}({each}, {each}) -> {each}", call) for name, call in operations.items() for each in _NUMBERS]
    entries += [(f"_%_({each}, {each}) -> {each}", modulo) for each in ("int", "uint")]
    return library(
        *entries,
        ("_+_(duration, duration) -> duration", plus),
        ("_+_(timestamp, duration) -> timestamp", plus),
        ("_+_(duration, timestamp) -> timestamp", plus),
        ("_-_(duration, duration) -> duration", minus),
        ("_-_(timestamp, duration) -> timestamp", minus),
        ("_-_(timestamp, timestamp) -> duration", minus),
        ("-_(int) -> int", negated),
        ("-_(double) -> double", negated),
    )


def _unconvertible(wanted: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from 'string' to '{wanted}'")


def _to_int(value: Any) -> int:
    if isinstance(value, datetime):
        return math.floor(value.timestamp())
    if isinstance(value, float):
        if not math.isfinite(value):
            raise EvaluationError("integer overflow")
        return checked_int(int(value))
    if isinstance(value, str):
        return _parsed(value, r"[+-]?0*\d{1,19}", range(-(2**63), 2**63), "int")
    return checked_int(int(value))


def _to_uint(value: Any) -> UInt:
    if isinstance(value, float) and not math.isfinite(value):
        raise EvaluationError("unsigned integer overflow")
    if isinstance(value, str):
        return UInt(_parsed(value, r"0*\d{1,20}", range(2**64), "uint"))
    return checked_uint(int(value))


def _parsed(text: str, pattern: str, numbers: range, wanted: str) -> int:
    """Return the number in a text. Raises EvaluationError if it is none, or has too many digits for its type."""
    if re.fullmatch(pattern, text, re.ASCII):
        sign, digits = text[:1].strip("+0123456789"), text.lstrip("+-").lstrip("0")
        number = int(f"{sign}{digits or 0}")
        if number in numbers:
            return number
    raise _unconvertible(wanted)


def _to_double(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise _unconvertible("double") from None


def to_string(value: Any) -> str:
    """Return `string(value)`."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
        case float():
            return number(value)
        case timedelta():
            return f"{number(value / timedelta(seconds=1))}s"
        case datetime():
            return time.format(value) if not value.microsecond else f"{time.format_micro(value)[:-1].rstrip('0')}Z"
        case _:
            return str(value)


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("1", "t", "true", "TRUE", "True", "T"):
        return True
    if value in ("0", "f", "false", "FALSE", "False", "F"):
        return False
    raise _unconvertible("bool")


def _to_timestamp(value: Any) -> datetime:
    try:
        if isinstance(value, datetime):
            return value
        return time.parse(value) if isinstance(value, str) else datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        raise _unconvertible("google.protobuf.Timestamp") from None


def _to_duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    try:
        return time.parse_duration(value)
    except (ValueError, OverflowError):
        raise _unconvertible("google.protobuf.Duration") from None


def _same(value: Any) -> Any:
    return value


FUNCTIONS: Final = (
    *_orderings(),
    *_arithmetic(),
    *library(
        ("!_(bool) -> bool", operator.not_),
        ("_&&_(bool, bool) -> bool", lambda left, right: left and right),
        ("_||_(bool, bool) -> bool", lambda left, right: left or right),
        ("_?_:_(bool, A, A) -> A", lambda condition, chosen, other: chosen if condition else other),
        ("_[_](list(A), int) -> A", item),
        ("_[_](map(A, B), A) -> B", item),
        ("size(string) -> int", len),
        ("size(bytes) -> int", len),
        ("size(list(A)) -> int", len),
        ("size(map(A, B)) -> int", len),
        ("string.size() -> int", len),
        ("bytes.size() -> int", len),
        ("list(A).size() -> int", len),
        ("map(A, B).size() -> int", len),
        ("bool(bool) -> bool", _to_bool),
        ("bool(string) -> bool", _to_bool),
        ("int(int) -> int", _to_int),
        ("int(uint) -> int", _to_int),
        ("int(double) -> int", _to_int),
        ("int(string) -> int", _to_int),
        ("int(timestamp) -> int", _to_int),
        ("uint(int) -> uint", _to_uint),
        ("uint(uint) -> uint", _to_uint),
        ("uint(double) -> uint", _to_uint),
        ("uint(string) -> uint", _to_uint),
        ("double(int) -> double", _to_double),
        ("double(uint) -> double", _to_double),
        ("double(double) -> double", _to_double),
        ("double(string) -> double", _to_double),
        ("string(bool) -> string", to_string),
        ("string(int) -> string", to_string),
        ("string(uint) -> string", to_string),
        ("string(double) -> string", to_string),
        ("string(string) -> string", to_string),
        ("string(bytes) -> string", to_string),
        ("string(timestamp) -> string", to_string),
        ("string(duration) -> string", to_string),
        ("bytes(bytes) -> bytes", _same),
        ("bytes(string) -> bytes", str.encode),
        ("timestamp(string) -> timestamp", _to_timestamp),
        ("timestamp(int) -> timestamp", _to_timestamp),
        ("timestamp(timestamp) -> timestamp", _to_timestamp),
        ("duration(string) -> duration", _to_duration),
        ("duration(duration) -> duration", _to_duration),
        ("dyn(A) -> dyn", _same),
        ("type(A) -> type(A)", lambda value: TypeValue(type_name(value))),
    ),
    *library(
        ("_==_(A, A) -> bool", equal),
        ("_!=_(A, A) -> bool", lambda left, right: not equal(left, right)),
        ("@in(A, list(A)) -> bool", lambda value, container: contains(container, value)),
        ("@in(A, map(A, B)) -> bool", lambda value, container: contains(container, value)),
        ("_+_(string, string) -> string", plus),
        ("_+_(bytes, bytes) -> bytes", plus),
        ("_+_(list(A), list(A)) -> list(A)", plus),
        linear=True,
    ),
)
