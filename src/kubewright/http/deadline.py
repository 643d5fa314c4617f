"""A time-out that costs a clock reading to move, not a timer.

A connection moves its time-out with each request, and with each chunk of a stream. The timer behind it is set once
and, when it goes off too early, sets itself again for what is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Deadline:
    """Calls `on_expiry` when the time set last has come. One at a time; `cancel` it when its owner is done."""

    __slots__ = ("_loop", "_on_expiry", "_timer", "_when")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_expiry: Callable[[], None]) -> None:
        self._loop = loop
        self._on_expiry = on_expiry
        self._when: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float | None) -> None:
        """Expire `seconds` from now; None: never."""
        if seconds is None:
            self._when = None
        else:
            self.set_at(self._loop.time() + seconds)

    def set_at(self, when: float) -> None:
        """Expire at `when`, in the event loop's time."""
        self._when = when
        timer = self._timer
        if timer is None or when < timer.when():
            if timer is not None:
                timer.cancel()
            self._timer = self._loop.call_at(when, self._check)

    def cancel(self) -> None:
        self._when = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        if self._when is None:
            return
        if self._loop.time() >= self._when:
            self._when = None
            self._on_expiry()
        else:
            self.set_at(self._when)
