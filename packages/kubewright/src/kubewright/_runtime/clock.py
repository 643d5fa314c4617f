"""Where time comes from: the system, or a clock that a test moves.

Code that waits or looks at the time is handed a `Clock` and asks that. `SystemClock` is the running event loop's;
`VirtualClock` stands still until it is told to move, and then runs whatever has fallen due, in its order.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol


class Timer(Protocol):
    """A call that is to come."""

    def cancel(self) -> None:
        """Call it off. Harmless when it has been made or called off already."""
        ...


class Clock(Protocol):
    """The time, and waiting for it. Used on the thread of the running event loop only."""

    def now(self) -> datetime:
        """The time of day, aware, in UTC. May jump when the system's clock is set."""
        ...

    def monotonic(self) -> float:
        """Seconds from some fixed point; never goes back. For measuring how long something took."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; not at all for zero or less, beyond letting others run."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call `callback` once, `seconds` from now, unless the timer is cancelled."""
        ...


class SystemClock:
    """The system's time and the running event loop's timers."""

    def now(self) -> datetime:
        """The system's time of day."""
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        """Wait, as `asyncio.sleep` does."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call `callback` from the event loop, `seconds` from now."""
        return asyncio.get_running_loop().call_later(seconds, callback)


class VirtualClock(Clock):
    """A clock that moves only when it is told to.

    Guarantees
        Timers run in the order of their times, equal ones in the order in which they were set.
        While a timer runs, `now()` is the time it was set for.
        `advance` gives tasks the time to run after each timer, and what they schedule within its span runs too.
    Not guaranteed
        That work which waits for real input (a socket, a thread) is finished when `advance` returns.
    """

    _TURNS = 25
    """How often the event loop is let round after each timer: deeper chains of tasks than this are not known here."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _VirtualTimer]] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, partial(_wake, woken))
        try:
            await woken
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        timer = _VirtualTimer(callback)
        heapq.heappush(self._timers, (self._elapsed + max(seconds, 0.0), next(self._order), timer))
        return timer

    async def advance(self, duration: timedelta | float) -> None:
        """Move by `duration` (a number is seconds), running what falls due on the way."""
        seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
        target = self._elapsed + seconds
        await self._settle()
        while self._timers and self._timers[0][0] <= target:
            due, _, timer = heapq.heappop(self._timers)
            if timer.callback is None:
                continue
            self._elapsed = max(self._elapsed, due)
            timer.run()
            await self._settle()
        self._elapsed = target

    async def _settle(self) -> None:
        for _ in range(self._TURNS):
            await asyncio.sleep(0)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _VirtualTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None

    def run(self) -> None:
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()
