"""Compiled expressions: functions of a frame.

A frame is a list. Its first item is the remaining cost budget; the others are the variables, each at a fixed index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kubewright_controlplane.schema.cel.values import CostExceeded, no_overload

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
        raise CostExceeded("operation cancelled: actual cost limit exceeded")
