"""Macros: loops over lists and maps, in which each iteration has a cost.

Follows https://github.com/google/cel-spec/blob/master/doc/langdef.md#macros and cel-go's two-variable comprehensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from kubewright.cel.code import Code, Frame, require_bool, spend
from kubewright.cel.library.lists import sorted_by
from kubewright.cel.values import NONE, EvaluationError, Optional, no_overload
from kubewright.machinery.json import is_array, is_object


def _pairs(values: Any, *, both: bool) -> Iterable[tuple[Any, Any]]:
    """Return the keys and values, or indices and items, of a loop. A single variable stands for a key or an item."""
    if is_object(values):
        return values.items() if both else ((key, None) for key in values)
    if is_array(values):
        return enumerate(values) if both else ((each, None) for each in values)
    raise no_overload()


Turns: TypeAlias = Callable[[Frame], Iterator[None]]


def iterations_of(over: Code, places: list[int], cost: int) -> Turns:
    """Iterate over a loop: set its variables in the frame, and spend the cost of each iteration."""
    first = places[0]
    second = places[1] if len(places) > 1 else 0

    def iterations(frame: Frame) -> Iterator[None]:
        for left, right in _pairs(over(frame), both=bool(second)):
            spend(frame, cost)
            frame[first] = left
            if second:
                frame[second] = right
            yield

    return iterations


def every(iterations: Turns, body: Code) -> Code:
    """Return false if one element is false. Raises an error of an element only if none is false."""

    def code(frame: Frame) -> bool:
        failed: EvaluationError | None = None
        for _ in iterations(frame):
            try:
                if not require_bool(body(frame)):
                    return False
            except EvaluationError as error:
                failed = error
        if failed is not None:
            raise failed
        return True

    return code


def some(iterations: Turns, body: Code) -> Code:
    """Return true if one element is true. Raises an error of an element only if none is true."""

    def code(frame: Frame) -> bool:
        failed: EvaluationError | None = None
        for _ in iterations(frame):
            try:
                if require_bool(body(frame)):
                    return True
            except EvaluationError as error:
                failed = error
        if failed is not None:
            raise failed
        return False

    return code


def only_one(iterations: Turns, body: Code) -> Code:
    """Return whether exactly one element is true."""
    return lambda frame: sum(require_bool(body(frame)) for _ in iterations(frame)) == 1


def filtered(iterations: Turns, place: int, body: Code) -> Code:
    """Return the items for which `body` is true. `place` holds the indices of the loop's variables in the frame."""
    return lambda frame: [frame[place] for _ in iterations(frame) if require_bool(body(frame))]


def mapped(iterations: Turns, body: Code, result: Code | None) -> Code:
    """Return the value of `body` for each item, or the value of `result`, if there is one, for items where `body` is
    true.
    """
    if result is None:
        return lambda frame: [body(frame) for _ in iterations(frame)]
    return lambda frame: [result(frame) for _ in iterations(frame) if require_bool(body(frame))]


def optional_mapped(over: Code, place: int, body: Code, *, flat: bool) -> Code:
    """Return the value of `body` for an optional value, if present. With `flat`, `body` itself returns an optional."""

    def code(frame: Frame) -> Any:
        value = over(frame)
        if value.__class__ is not Optional:
            raise no_overload()
        if not value.present:
            return NONE
        frame[place] = value.value
        return body(frame) if flat else Optional(body(frame))

    return code


def ordered(iterations: Turns, place: int, body: Code) -> Code:
    """Return the items, sorted by the value of `body` for each."""

    def code(frame: Frame) -> list[Any]:
        pairs = [(frame[place], body(frame)) for _ in iterations(frame)]
        return sorted_by([value for value, _ in pairs], [key for _, key in pairs])

    return code


def transformed_map(iterations: Turns, place: int, body: Code, result: Code | None) -> Code:
    """Transform like `mapped`, but keep the keys."""

    def code(frame: Frame) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        for _ in iterations(frame):
            if result is None:
                out[frame[place]] = body(frame)
            elif require_bool(body(frame)):
                out[frame[place]] = result(frame)
        return out

    return code


def transformed_entries(iterations: Turns, body: Code, result: Code | None) -> Code:
    """Transform like `mapped`, but merge the entries that each iteration returns into one map."""

    def code(frame: Frame) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        for _ in iterations(frame):
            if result is not None and not require_bool(body(frame)):
                continue
            for key, value in (body if result is None else result)(frame).items():
                if key in out:
                    raise EvaluationError(f"insert failed: key {key} already exists")
                out[key] = value
        return out

    return code
