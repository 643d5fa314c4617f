"""Compiled expressions: functions of a frame.

A frame is a list. Its first item is the remaining cost budget; the others are the variables, each at a fixed index.
The last item is the `Meter` of the evaluation, or None.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from kubewright_controlplane.schema.cel.values import COST_EXCEEDED, CostExceeded, no_overload

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

    __slots__ = ("_seconds", "_spent", "_started", "reserve")

    def __init__(self, seconds: float) -> None:
        """`seconds` is the limit of the processor time of this thread, from now on."""
        self.reserve = 0
        """The part of the budget that is not in the frame yet."""
        self._seconds = seconds
        self._started = time.thread_time()
        self._spent = 0

    def start(self, budget: int) -> int:
        """Begin an evaluation, and return the first part of its budget. Raises CostExceeded if there is no time."""
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

    def _check_time(self) -> None:
        if self._spent > _FREE and time.thread_time() - self._started > self._seconds:
            raise CostExceeded(f"operation cancelled: it took more than {self._seconds * 1000:.0f} ms")
