"""Time: the time of day comes from a `Clock`, which tests can replace; all other time from the running event loop.

Code that waits uses `asyncio.sleep`, `asyncio.timeout` and the loop's timers, so that a test can run it on an event
loop with virtual time. Code that measures uses `monotonic`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Timer(Protocol):
    """A call in the future."""

    def cancel(self) -> None:
        """Cancel the call. Does nothing if it was made or canceled before."""
        ...


class Clock(Protocol):
    """The time of day, and shortcuts to the running event loop's time. For the thread of that event loop only."""

    def now(self) -> datetime:
        """Return the time of day, aware, in UTC. It jumps when the system's clock is set."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some fixed point. They never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; for zero or less only let other tasks run."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call `callback` once, `seconds` from now, unless the timer is canceled."""
        ...


def monotonic() -> float:
    """Return the running event loop's time, exactly.

    uvloop's own `time()` is that of the loop's last turn: it does not see how long the current callback has blocked.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return time.monotonic()
    return loop.time() if isinstance(loop, asyncio.BaseEventLoop) else time.monotonic()


class SystemClock:
    """The system's time of day, and the running event loop's timers."""

    def now(self) -> datetime:
        """Return the system's time of day."""
        return datetime.now(UTC)

    monotonic = staticmethod(monotonic)

    async def sleep(self, seconds: float) -> None:
        """Wait, as `asyncio.sleep` does."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Make the event loop call `callback`, `seconds` from now."""
        return asyncio.get_running_loop().call_later(seconds, callback)


def time_source(clock: Clock) -> Callable[[], float]:
    """Return `clock.monotonic`, or a faster function with the same result in the running event loop.

    For code of one event loop that reads the time for each event: `monotonic` looks for the loop in every call.
    """
    if not isinstance(clock, SystemClock):
        return clock.monotonic
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return monotonic
    return loop.time if isinstance(loop, asyncio.BaseEventLoop) else time.monotonic
