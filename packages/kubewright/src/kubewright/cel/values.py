"""The values of expressions: plain Python objects, and a few types that Python lacks.

They are bool, int (64 bits, checked), `UInt`, float, str, bytes, None, list, dict, timedelta (duration), aware
datetime (timestamp), `Optional`, `TypeValue`, and the types of the libraries. Equality and order are those of CEL,
not of Python: `true` does not equal 1, numbers of different types compare by value, and comparing values without an
order is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from kubewright.machinery.quantity import Quantity

COST_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**63 - 1
_UINT_MAX: Final = 2**64 - 1


class EvaluationError(Exception):
    """An expression has no value: missing key, division by zero, overflow."""


class CostExceeded(Exception):
    """An evaluation was stopped because it exceeded its cost limit."""


class UInt(int):
    """An unsigned integer of 64 bits."""


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be absent."""

    value: Any = None
    present: bool = True


NONE: Final = Optional(present=False)


class StructValue(dict[str, Any]):
    """A value of a named type, by its fields: what `Object.spec{replicas: 3}` constructs."""

    __slots__ = ("type",)

    def __init__(self, type: str, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.type = type


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type, as returned by `type(x)`."""

    name: str


_TYPE_NAMES: Final[dict[type, str]] = {
    bool: "bool", int: "int", UInt: "uint", float: "double", str: "string", bytes: "bytes", type(None): "null_type",
    list: "list", dict: "map", timedelta: "google.protobuf.Duration", datetime: "google.protobuf.Timestamp",
    Optional: "optional_type", TypeValue: "type", Quantity: "kubernetes.Quantity",
}  # fmt: skip


def type_name(value: object) -> str:
    """Return CEL's type of a value."""
    known = _TYPE_NAMES.get(value.__class__)
    if known is not None:
        return known
    return value.type if isinstance(value, StructValue) else str(getattr(value.__class__, "CEL_TYPE", "dyn"))


def no_overload() -> EvaluationError:
    return EvaluationError("no such overload")


def checked_int(value: int) -> int:
    """Return `value` if it fits into 64 bits."""
    if _INT_MIN <= value <= _INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def checked_uint(value: int) -> UInt:
    if 0 <= value <= _UINT_MAX:
        return UInt(value)
    raise EvaluationError("unsigned integer overflow")


def equal(left: Any, right: Any) -> bool:
    """CEL's `==`."""
    if left.__class__ is right.__class__:
        if left.__class__ is list:
            return len(left) == len(right) and all(map(equal, left, right))
        if left.__class__ is dict:
            return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
        if left.__class__ is StructValue:
            return left.type == right.type and equal(dict(left), dict(right))
        return bool(left == right)
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return not isinstance(left, bool) and not isinstance(right, bool) and left == right
    return False


def contains(container: Any, value: Any) -> bool:
    """CEL's `in`: an item of a list, or a key of a map."""
    if container.__class__ is list:
        return any(equal(each, value) for each in container)
    return any(equal(key, value) for key in container)


def comparable(left: Any, right: Any) -> None:
    """Raise unless `left` and `right` have an order."""
    if left.__class__ is right.__class__ and left.__class__ is not dict and left.__class__ is not list:
        return
    numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
    if not numbers or isinstance(left, bool) or isinstance(right, bool):
        raise no_overload()


def plus(left: Any, right: Any) -> Any:
    if left.__class__ is right.__class__:
        match left:
            case bool():
                raise no_overload()
            case UInt():
                return checked_uint(int(left) + int(right))
            case int():
                return checked_int(left + right)
            case float() | str() | bytes() | list() | timedelta():
                return left + right
            case _:
                raise no_overload()
    if isinstance(left, (datetime, timedelta)) and isinstance(right, (datetime, timedelta)):
        return _moved(left, right)
    raise no_overload()


def _moved(left: Any, right: Any) -> Any:
    try:
        return left + right
    except (OverflowError, TypeError):
        raise EvaluationError("timestamp overflow") from None


def minus(left: Any, right: Any) -> Any:
    if left.__class__ is right.__class__:
        match left:
            case UInt():
                return checked_uint(int(left) - int(right))
            case bool():
                raise no_overload()
            case int():
                return checked_int(left - right)
            case float() | timedelta() | datetime():
                return left - right
            case _:
                raise no_overload()
    if isinstance(left, datetime) and isinstance(right, timedelta):
        return _moved(left, -right)
    raise no_overload()


def times(left: Any, right: Any) -> Any:
    _same_number(left, right)
    if isinstance(left, UInt):
        return checked_uint(int(left) * int(right))
    return left * right if isinstance(left, float) else checked_int(left * right)


def divided(left: Any, right: Any) -> Any:
    _same_number(left, right)
    if isinstance(left, float):
        return _float_divided(left, right)
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return _resized(left, quotient if (left < 0) == (right < 0) else -quotient)


def _float_divided(left: float, right: float) -> float:
    if right:
        return left / right
    if left == 0 or left != left:
        return float("nan")
    return float("inf") if (left > 0) == (str(right)[0] != "-") else float("-inf")


def modulo(left: Any, right: Any) -> Any:
    _same_number(left, right)
    if isinstance(left, float):
        raise no_overload()
    if right == 0:
        raise EvaluationError("modulus by zero")
    rest = abs(left) % abs(right)
    return _resized(left, -rest if left < 0 else rest)


def negated(value: Any) -> Any:
    if isinstance(value, float):
        return -value
    if value.__class__ is not int:
        raise no_overload()
    return checked_int(-value)


def _same_number(left: Any, right: Any) -> None:
    if left.__class__ is not right.__class__ or left.__class__ not in (int, UInt, float):
        raise no_overload()


def _resized(like: int, value: int) -> int:
    return checked_uint(value) if isinstance(like, UInt) else checked_int(value)


def item(container: Any, key: Any) -> Any:
    """Return `container[key]`: of a list by integer, of a map by key."""
    if container.__class__ is list:
        if isinstance(key, float) and key.is_integer():
            key = int(key)
        if isinstance(key, bool) or not isinstance(key, int):
            raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")
        if not 0 <= key < len(container):
            raise EvaluationError(f"index out of bounds: {key}")
        return container[key]
    if container.__class__ is dict:
        try:
            return container[key]
        except (KeyError, TypeError):
            raise EvaluationError(f"no such key: {key}") from None
    raise no_overload()
