"""A timeout that is cheap to move: it costs a clock reading, not a timer.

A connection moves its timeout with each request, and with each chunk of a stream. The timer is set once. If it fires
too early, it is set again for the time that is left.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable


class Deadline:
    """Calls `on_expiry` at the time that was set last. Call `cancel` when its owner closes."""

    __slots__ = ("_due", "_loop", "_on_expiry", "_timer", "_when")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_expiry: Callable[[], None]) -> None:
        self._loop = loop
        self._on_expiry = on_expiry
        self._when: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf
        """When the timer fires."""

    def set(self, seconds: float | None) -> None:
        """Expire `seconds` from now, or never for None."""
        if seconds is None:
            self._when = None
        else:
            self._when = when = self._loop.time() + seconds
            if when < self._due:
                self._arm(when)

    def set_at(self, when: float) -> None:
        """Expire at `when`, in the event loop's time."""
        self._when = when
        if when < self._due:
            self._arm(when)

    def cancel(self) -> None:
        self._when = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._due = math.inf

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._check)
        self._due = when

    def _check(self) -> None:
        self._timer = None
        self._due = math.inf
        if self._when is None:
            return
        if self._loop.time() >= self._when:
            self._when = None
            self._on_expiry()
        else:
            self._arm(self._when)
