"""The effort of work that cannot be interrupted, reported before it begins.

Two parts of an expression can take very long for its size: regular expressions, and the compilation of the expression
itself. They report the effort that they may make, and a server stops or moves the work that would delay others.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

SECONDS: Final = 6e-9
"""The processor time of a unit of effort, roughly."""

limit: ContextVar[Callable[[int], None] | None] = ContextVar("limit", default=None)
"""Is called with the units of effort that follow. It may raise an exception instead. None: there is no limit."""


def report(units: int) -> None:
    """Report effort to the limit in force."""
    check = limit.get()
    if check is not None:
        check(units)
