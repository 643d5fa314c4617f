"""What macros do: loops over lists and maps, each turn of which is paid for.

Follows https://github.com/google/cel-spec/blob/master/doc/langdef.md#macros and cel-go's two-variable comprehensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from kubewright.machinery.json import is_array, is_object
from kubewright_controlplane.schema.cel.code import Code, Frame, spend, truth
from kubewright_controlplane.schema.cel.library.lists import sorted_by
from kubewright_controlplane.schema.cel.values import NONE, EvaluationError, Optional, no_overload


def _pairs(values: Any, *, both: bool) -> Iterable[tuple[Any, Any]]:
    """What a loop is over: keys and values, indices and items; one variable stands for a key, or an item."""
    if is_object(values):
        return values.items() if both else ((key, None) for key in values)
    if is_array(values):
        return enumerate(values) if both else ((each, None) for each in values)
    raise no_overload()


Turns: TypeAlias = Callable[[Frame], Iterator[None]]


def turns_of(over: Code, places: list[int], cost: int) -> Turns:
    """The turns of a loop: each puts the loop's variables into the frame, and takes its cost from the budget."""
    first = places[0]
    second = places[1] if len(places) > 1 else 0

    def turns(frame: Frame) -> Iterator[None]:
        for left, right in _pairs(over(frame), both=bool(second)):
            spend(frame, cost)
            frame[first] = left
            if second:
                frame[second] = right
            yield

    return turns


def every(turns: Turns, body: Code) -> Code:
    """False as soon as one is; an error only when none is false."""

    def code(frame: Frame) -> bool:
        failed: EvaluationError | None = None
        for _ in turns(frame):
            try:
                if not truth(body(frame)):
                    return False
            except EvaluationError as error:
                failed = error
        if failed is not None:
            raise failed
        return True

    return code


def some(turns: Turns, body: Code) -> Code:
    """True as soon as one is; an error only when none is true."""

    def code(frame: Frame) -> bool:
        failed: EvaluationError | None = None
        for _ in turns(frame):
            try:
                if truth(body(frame)):
                    return True
            except EvaluationError as error:
                failed = error
        if failed is not None:
            raise failed
        return False

    return code


def only_one(turns: Turns, body: Code) -> Code:
    """Whether exactly one is true."""
    return lambda frame: sum(truth(body(frame)) for _ in turns(frame)) == 1


def filtered(turns: Turns, place: int, body: Code) -> Code:
    """The items for which `body` is true; `place` is where each stands in the frame."""
    return lambda frame: [frame[place] for _ in turns(frame) if truth(body(frame))]


def mapped(turns: Turns, body: Code, result: Code | None) -> Code:
    """What `body` gives for each; where there is a `result`, what that gives for those for which `body` is true."""
    if result is None:
        return lambda frame: [body(frame) for _ in turns(frame)]
    return lambda frame: [result(frame) for _ in turns(frame) if truth(body(frame))]


def optional_mapped(over: Code, place: int, body: Code, *, flat: bool) -> Code:
    """What `body` gives for an optional value, if there is one; `flat` when that is optional already."""

    def code(frame: Frame) -> Any:
        value = over(frame)
        if value.__class__ is not Optional:
            raise no_overload()
        if not value.present:
            return NONE
        frame[place] = value.value
        return body(frame) if flat else Optional(body(frame))

    return code


def ordered(turns: Turns, place: int, body: Code) -> Code:
    """The items in the order of what `body` gives for each."""

    def code(frame: Frame) -> list[Any]:
        pairs = [(frame[place], body(frame)) for _ in turns(frame)]
        return sorted_by([value for value, _ in pairs], [key for _, key in pairs])

    return code


def transformed_map(turns: Turns, place: int, body: Code, result: Code | None) -> Code:
    """As `mapped`, by the same keys."""

    def code(frame: Frame) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        for _ in turns(frame):
            if result is None:
                out[frame[place]] = body(frame)
            elif truth(body(frame)):
                out[frame[place]] = result(frame)
        return out

    return code


def transformed_entries(turns: Turns, body: Code, result: Code | None) -> Code:
    """As `mapped`, where each gives the entries to put into one map."""

    def code(frame: Frame) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        for _ in turns(frame):
            if result is not None and not truth(body(frame)):
                continue
            for key, value in (body if result is None else result)(frame).items():
                if key in out:
                    raise EvaluationError(f"insert failed: key {key} already exists")
                out[key] = value
        return out

    return code
