"""Compiled expressions: functions of a frame.

A frame is a list. Its first item is the remaining cost budget; the others are the variables, each at a fixed index.
The last item is the `Meter` of the evaluation, or None.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from kubewright.cel.values import COST_EXCEEDED, CostExceeded, no_overload
from kubewright.machinery import effort

_SLICE: Final = 10_000
"""The cost after which the time is checked."""
_FREE: Final = 100_000
"""The cost that is granted whatever time it takes."""

_EVALUATION: Final = 100
"""What an evaluation costs in addition, for the time only."""

Frame: TypeAlias = list[Any]
Code: TypeAlias = Callable[[Frame], Any]


def require_bool(value: Any) -> bool:
    """Return `value`, which must be true or false."""
    if value.__class__ is not bool:
        raise no_overload()
    return bool(value)


def spend(frame: Frame, cost: int) -> None:
    """Subtract `cost` from the budget. Raises CostExceeded if the budget is too small."""
    frame[0] -= cost
    if frame[0] < 0:
        meter = frame[-1]
        if meter is None:
            raise CostExceeded(COST_EXCEEDED)
        meter.refill(frame)


class Meter:
    """Limits the time of several evaluations, in addition to their costs.

    A cost is a good measure of time for small expressions, whose time does not matter. Expensive ones are stopped when
    they have used too much processor time. So the result of an expression with a small cost never depends on how fast
    the machine is.
    """

    __slots__ = ("_effort", "_seconds", "_spent", "_started", "reserve")

    def __init__(self, seconds: float) -> None:
        """`seconds` is the limit of the processor time of this thread, from the first evaluation on."""
        self.reserve = 0
        """The part of the budget that is not in the frame yet."""
        self._seconds = seconds
        self._started: float | None = None
        self._spent = 0
        self._effort = 0

    def start(self, budget: int) -> int:
        """Begin an evaluation, and return the first part of its budget. Raises CostExceeded if there is no time."""
        if self._started is None:
            self._started = time.thread_time()
        self._spent += _EVALUATION
        self._check_time()
        part = min(budget, _SLICE)
        self.reserve = budget - part
        return part

    def refill(self, frame: Frame) -> None:
        """Move the next part of the budget to the frame. Raises CostExceeded if there is none, or no time."""
        wanted = max(_SLICE, -frame[0])
        part = min(wanted, self.reserve)
        self.reserve -= part
        self._spent += part
        frame[0] += part
        if frame[0] < 0:
            raise CostExceeded(COST_EXCEEDED)
        self._check_time()

    def foresee(self, units: int) -> None:
        """Count the effort of regular expressions. Raises CostExceeded if it may take longer than the limit."""
        self._effort += units
        if self._effort * effort.SECONDS > self._seconds:
            raise self._took_too_long()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Do not count the time of the block."""
        began = time.thread_time()
        yield
        if self._started is not None:
            self._started += time.thread_time() - began

    def _check_time(self) -> None:
        if self._spent <= _FREE or self._started is None:
            return
        if time.thread_time() - self._started > self._seconds:
            raise self._took_too_long()

    def _took_too_long(self) -> CostExceeded:
        return CostExceeded(f"operation cancelled: it took more than {self._seconds * 1000:.0f} ms")
