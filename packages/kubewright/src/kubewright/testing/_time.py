"""Virtual time: an event loop whose time jumps, and a clock that a test moves."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import selectors
import time
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar, TypeVarTuple

from kubewright._runtime.clock import Clock, Timer
from kubewright.machinery.time import Seconds, seconds

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
"""The arguments of a function that runs in a thread."""

_Ready = list[tuple[selectors.SelectorKey, int]]

START: Final = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose time starts at 0 and jumps to the next timer when nothing is ready.

    Guarantees
        Timers run in the order of their times.
        Time does not pass while a task can run, however slow the machine is.
        While sockets, child processes or threads of an executor are in use, time passes as it really does: their input
        may come at any moment. `advance` jumps nevertheless.
    Not guaranteed
        That it notices threads that it did not start: they reach it by `call_soon_threadsafe`.

    In a test module, for all its tests (pytest-asyncio):

        def pytest_asyncio_loop_factories():
            return {"virtual": VirtualTimeLoop}
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._free_until = 0.0
        """`advance` may jump up to this time, whatever is in use."""
        self._outside = 0
        """Calls in threads of an executor, and child processes."""
        self._looked_at = time.monotonic()
        """The real time of the last turn of the loop."""
        self._settling: list[asyncio.Future[None]] = []
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self._now

    async def settle(self) -> None:
        """Wait until every task waits for a timer or for input. Time stands still."""
        settled: asyncio.Future[None] = self.create_future()
        self._settling.append(settled)
        await settled

    async def advance(self, duration: Seconds) -> None:
        """Let that much time pass, in seconds or as a timedelta, and settle at its end."""
        await self.settle()
        end = self._now + seconds(duration)
        self._free_until = max(end, self._free_until)
        await asyncio.sleep(end - self._now)
        await self.settle()

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Call a function in a thread. Real time passes until it returns."""
        self._outside += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._ended)
        return future

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:  # from Python 3.12 on: timeout
        """Wait until the threads of the default executor have ended. Real time passes until then."""
        self._outside += 1
        try:
            await super().shutdown_default_executor(*args, **kwargs)
        finally:
            self._ended()

    async def subprocess_exec(
        self, protocol_factory: Callable[[], Any], *args: Any, **kwargs: Any
    ) -> tuple[asyncio.SubprocessTransport, Any]:
        """Start a child process. Real time passes until it exits."""
        protocol = protocol_factory()
        exited = protocol.process_exited

        def process_exited() -> None:
            self._ended()
            exited()

        protocol.process_exited = process_exited
        self._outside += 1
        try:
            return await super().subprocess_exec(lambda: protocol, *args, **kwargs)
        except BaseException:
            self._ended()
            raise

    def wait_for_input(self, select: Callable[[float | None], _Ready], timeout: float | None) -> _Ready:
        """Return ready input, and let time pass if there is none. The selector calls this once per turn of the loop."""
        ready = select(0)
        outside = self._uses_input()
        if not ready and (timeout is None or timeout > 0):
            if self._settling:
                self._end_settling()
            elif timeout is not None and (not outside or self._now + timeout <= self._free_until):
                self._now += timeout
            else:
                ready = select(timeout)
        now = time.monotonic()
        if outside:
            self._now += now - self._looked_at
        self._looked_at = now
        return ready

    def _end_settling(self) -> None:
        settling, self._settling = self._settling, []
        for each in settling:
            if not each.done():
                each.set_result(None)

    def _uses_input(self) -> bool:
        own = 1  # the pipe by which other threads wake the event loop
        return self._outside > 0 or len(self._selector.get_map()) > own  # type: ignore[attr-defined]

    def _ended(self, _: object = None) -> None:
        self._outside -= 1


class _Selector(selectors.DefaultSelector):
    """Asks its event loop before it waits."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> _Ready:
        return self._loop.wait_for_input(super().select, timeout)


class VirtualClock(Clock):
    """A clock that moves only when a test moves it. Give it to a Manager: `ctx.clock` returns it.

        clock = VirtualClock()
        async with manager.replace(config=account, clock=clock):
            await clock.advance(timedelta(hours=1))

    On a `VirtualTimeLoop` it shows the time of the event loop, and `advance` moves that: all timers of the program. On
    any other event loop it moves the time of day, and the timers that were set by this clock.

    Guarantees
        Timers run in the order of their times.
        While a timer runs, `now()` returns the time it was set for.
    Not guaranteed
        That work has finished when `advance` returns, if it waits for a socket or a thread. Use `eventually`.
    """

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._elapsed = 0.0
        self._zero: float | None = None
        """Time of the virtual event loop when this clock was first used."""
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _VirtualTimer]] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        loop = _virtual_loop()
        if loop is None:
            return self._elapsed
        if self._zero is None:
            self._zero = loop.time()
        return loop.time() - self._zero

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0 or _virtual_loop() is not None:
            await asyncio.sleep(seconds)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, partial(_wake, woken))
        try:
            await woken
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        loop = _virtual_loop()
        if loop is not None:
            return loop.call_later(max(seconds, 0.0), callback)
        timer = _VirtualTimer(callback)
        heapq.heappush(self._timers, (self._elapsed + max(seconds, 0.0), next(self._order), timer))
        return timer

    async def advance(self, duration: Seconds) -> None:
        """Move by `duration`, in seconds or as a timedelta, and run the timers that fall due."""
        self.monotonic()  # this clock is in use from here on
        loop = _virtual_loop()
        if loop is not None:
            await loop.advance(duration)
            return
        target = self._elapsed + seconds(duration)
        await asyncio.sleep(0)
        while self._timers and self._timers[0][0] <= target:
            due, _, timer = heapq.heappop(self._timers)
            self._elapsed = max(self._elapsed, due)
            timer.run()
            await asyncio.sleep(0)
        self._elapsed = target


def _virtual_loop() -> VirtualTimeLoop | None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return loop if isinstance(loop, VirtualTimeLoop) else None


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
