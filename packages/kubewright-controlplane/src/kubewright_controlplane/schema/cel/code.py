"""What a compiled expression is: a function of a frame.

A frame is a list: what is left of the cost budget in front, then the variables, each in a place of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kubewright_controlplane.schema.cel.values import CostExceeded, no_overload

Frame: TypeAlias = list[Any]
Code: TypeAlias = Callable[[Frame], Any]


def truth(value: Any) -> bool:
    """`value`, which has to be true or false."""
    if value.__class__ is not bool:
        raise no_overload()
    return bool(value)


def spend(frame: Frame, cost: int) -> None:
    """Take `cost` from the budget. Raises CostExceeded when that is more than there is."""
    frame[0] -= cost
    if frame[0] < 0:
        raise CostExceeded("operation cancelled: actual cost limit exceeded")
