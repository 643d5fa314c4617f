"""Function calls: bound to one overload if the types are known, else dispatched on the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubewright_controlplane.schema.cel.code import Code, Frame, spend
from kubewright_controlplane.schema.cel.functions import Function, size_of
from kubewright_controlplane.schema.cel.syntax import Call
from kubewright_controlplane.schema.cel.types import Type, unify
from kubewright_controlplane.schema.cel.values import no_overload


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


def call_of(candidates: list[Function], arguments: list[Code]) -> Code:
    """Call the candidate that accepts the values, and spend what the call costs in addition to its step."""
    if len(candidates) != 1:
        return _dispatched(candidates, arguments)
    (function,) = candidates
    call = function.call
    if function.linear:
        return _call_with_size_cost(call, arguments)
    if function.cost:
        return _call_with_fixed_cost(function, arguments)
    match arguments:
        case [only]:
            return lambda frame: call(only(frame))
        case [first, second]:
            return lambda frame: call(first(frame), second(frame))
        case _:
            return lambda frame: call(*[each(frame) for each in arguments])


def _call_with_size_cost(call: Callable[..., Any], arguments: list[Code]) -> Code:
    if len(arguments) != 2:
        return lambda frame: _call_and_spend(call, [each(frame) for each in arguments], frame)
    first, second = arguments

    def called(frame: Frame) -> Any:
        left, right = first(frame), second(frame)
        if left.__class__ is str and right.__class__ is str and len(left) + len(right) < 10:
            return call(left, right)
        return _call_and_spend(call, [left, right], frame)

    return called


def _call_with_fixed_cost(function: Function, arguments: list[Code]) -> Code:
    def called(frame: Frame) -> Any:
        values = [each(frame) for each in arguments]
        spend(frame, function.cost)
        return function.call(*values)

    return called


def _call_and_spend(call: Callable[..., Any], values: list[Any], frame: Frame) -> Any:
    spend(frame, sum(map(size_of, values)) // 10)
    return call(*values)


def _dispatched(candidates: list[Function], arguments: list[Code]) -> Code:
    def called(frame: Frame) -> Any:
        values = [each(frame) for each in arguments]
        for function in candidates:
            if function.accepts(values):
                spend(frame, function.cost + sum(map(size_of, values)) // 10)
                return function.call(*values)
        raise no_overload()

    return called
