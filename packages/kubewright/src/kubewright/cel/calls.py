"""Function calls: bound to one overload if the types are known, else dispatched on the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kubewright.cel.code import Code, Frame, spend
from kubewright.cel.functions import Function, size_of
from kubewright.cel.syntax import Call
from kubewright.cel.types import DYN, Type, unify
from kubewright.cel.values import no_overload

_SIZED: Final = frozenset({"string", "bytes", "list", "map", "dyn"})
_GROWING: Final = (str, bytes, list, dict)
_CONSTANT_TIME: Final = frozenset(
    {
        "size", "_[_]", "_[?_]", "type", "dyn", "optional.of", "optional.none", "hasValue", "value", "or", "orValue",
        "_&&_", "_||_", "_?_:_", "_<_", "_<=_", "_>_", "_>=_",
    }
)  # fmt: skip
"""Functions that need the same time for values of any size, or stop at the first difference."""
_QUADRATIC: Final = frozenset({"distinct", "sets.contains", "sets.intersects", "sets.equivalent"})
"""Functions that compare each item with each other one."""
_DEEP: Final = frozenset({"_==_", "_!=_", "@in", "indexOf", "lastIndexOf", "format", "join"})
"""Functions that also read the items of lists, and what is in them."""
_PARSERS: Final = frozenset(
    {
        "quantity", "isQuantity", "url", "isURL", "ip", "isIP", "cidr", "isCIDR", "ip.isCanonical", "semver",
        "isSemver", "timestamp", "duration", "validate", "format", "matches", "find", "findAll",
    }
)  # fmt: skip
_COPYING: Final = frozenset({"replace", "split"})
"""Functions that also build their result from parts of their arguments."""
_PARSING_COST: Final = 20
"""The cost of reading a text, in addition to its size."""


def candidates(expression: Call, functions: Mapping[str, Sequence[Function]]) -> list[Function]:
    """Return the overloads that match the types of the arguments."""
    given = [each.type for each in expression.arguments]
    return [
        each
        for each in functions[expression.function]
        if each.signature.member == expression.member
        and len(each.signature.parameters) == len(given)
        and _may_be(each, given)
    ]


def _may_be(function: Function, given: Sequence[Type]) -> bool:
    bound: dict[str, Type] = {}
    return all(unify(wanted, each, bound) for wanted, each in zip(function.signature.parameters, given, strict=True))


def is_dynamic(candidates: Sequence[Function], expression: Call) -> bool:
    """Return whether only the values of the arguments decide if and by which of the candidates they are accepted."""
    if len(candidates) != 1:
        return True
    wanted = candidates[0].signature.parameters
    return any(
        argument.type == DYN and not (each.is_variable or each == DYN)
        for each, argument in zip(wanted, expression.arguments, strict=True)
    )


def call_of(candidates: list[Function], arguments: list[Code], extra: int = 0, *, dynamic: bool = False) -> Code:
    """Call the candidate that accepts the values. Spends what the call costs in addition to its step, and `extra`.

    `dynamic`: the values have to be checked even if there is one candidate.
    """
    if dynamic or len(candidates) != 1:
        return _dispatched(candidates, arguments, extra)
    (function,) = candidates
    call = function.call
    if extra or function.cost or _is_sized(function):
        return _charged(_Charge(function, extra), arguments)
    match arguments:
        case [only]:
            return lambda frame: call(only(frame))
        case [first, second]:
            return lambda frame: call(first(frame), second(frame))
        case _:
            return lambda frame: call(*[each(frame) for each in arguments])


def _is_sized(function: Function) -> bool:
    """Return whether the time of a call depends on the sizes of its arguments."""
    signature = function.signature
    if signature.function in _CONSTANT_TIME:
        return False
    return any(each.is_variable or each.name in _SIZED for each in signature.parameters)


class _Charge:
    """A function whose calls have a cost."""

    __slots__ = ("_cost", "_sizes", "call")

    def __init__(self, function: Function, extra: int) -> None:
        name = function.signature.function
        self.call = function.call
        self._cost = function.cost + extra + (_PARSING_COST if name in _PARSERS else 0)
        self._sizes: Callable[[Sequence[Any]], int] = _no_size
        if name in _QUADRATIC:
            self._sizes = _product
        elif name in _DEEP:
            self._sizes = _weights
        elif name in _COPYING:
            self._sizes = _twice
        elif name not in _CONSTANT_TIME:
            self._sizes = _total

    def __call__(self, values: Sequence[Any], frame: Frame) -> Any:
        spend(frame, self._cost + self._sizes(values))
        result = self.call(*values)
        if self._sizes is not _no_size and result.__class__ in _GROWING:
            spend(frame, len(result) // 10)
        return result


def _no_size(values: Sequence[Any]) -> int:
    return 0


def _total(values: Sequence[Any]) -> int:
    return sum(map(size_of, values)) // 10


def _twice(values: Sequence[Any]) -> int:
    return 2 * size_of(values[0]) // 10


def _weights(values: Sequence[Any]) -> int:
    return sum(map(_weight, values))


def _weight(value: Any) -> int:
    """Return the size of a value with everything in it."""
    if value.__class__ is list:
        return len(value) + sum(map(_weight, value))
    if isinstance(value, dict):
        return len(value) + sum(map(_weight, value.values()))
    return size_of(value) // 10


def _product(values: Sequence[Any]) -> int:
    """Return the number of pairs of items that a function may compare."""
    first, last = size_of(values[0]), size_of(values[-1])
    return first * last


def _charged(charge: _Charge, arguments: list[Code]) -> Code:
    if len(arguments) != 2:
        return lambda frame: charge([each(frame) for each in arguments], frame)
    first, second = arguments
    return lambda frame: charge((first(frame), second(frame)), frame)


def _dispatched(candidates: list[Function], arguments: list[Code], extra: int) -> Code:
    charges = [_Charge(function, extra) for function in candidates]
    known: dict[tuple[type, ...], _Charge] = {}
    """The function for values of these classes, on which alone the choice depends."""

    def called(frame: Frame) -> Any:
        values = [each(frame) for each in arguments]
        classes = tuple(map(type, values))
        charge = known.get(classes)
        if charge is None:
            accepting = (each for function, each in zip(candidates, charges, strict=True) if function.accepts(values))
            charge = next(accepting, None)
            if charge is None:
                raise no_overload()
            known[classes] = charge
        return charge(values, frame)

    return called
