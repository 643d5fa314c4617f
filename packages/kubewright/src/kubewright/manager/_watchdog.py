"""Reports a reconcile that blocks the event loop.

While one coroutine blocks, all others wait: reconciles, watches, probes, and the renewal of the Lease. A thread
pings the event loop, and records what the loop is doing if it does not respond within `LIMIT`. The warning is logged
when the event loop runs again, because only then the duration is known.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import msgspec

from kubewright._runtime.log import get_logger, is_library
from kubewright.controllers._loop import ControlLoop

LIMIT: Final = 1.0
"""Seconds without a response after which the event loop counts as blocked."""
_PERIOD: Final = 0.25
"""Seconds between two pings."""


class _BlockingTask(msgspec.Struct, frozen=True):
    controller: str | None
    """None for a task that is not a reconcile, such as a runnable."""
    object: str
    """Namespace and name of the object, or else the name of the task."""
    at: str | None
    """File, line and function that the event loop was in."""


@contextmanager
def watch_event_loop(loops: Sequence[ControlLoop[Any]]) -> Generator[None]:
    """Report what blocks the running event loop during the block; `loops` know the reconciles."""
    stopped = threading.Event()
    watchdog = _Watchdog(asyncio.get_running_loop(), loops, stopped)
    threading.Thread(target=watchdog.watch, name="kubewright-watchdog", daemon=True).start()
    try:
        yield
    finally:
        stopped.set()


class _Watchdog:
    def __init__(
        self, event_loop: asyncio.AbstractEventLoop, loops: Sequence[ControlLoop[Any]], stopped: threading.Event
    ) -> None:
        self._event_loop = event_loop
        self._thread = threading.get_ident()
        self._loops = loops
        self._stopped = stopped
        self._log = get_logger("kubewright.manager")

    def watch(self) -> None:
        """Ping until stopped. Runs in its own thread."""
        while not self._stopped.wait(_PERIOD):
            answered, asked = threading.Event(), time.monotonic()
            try:
                self._event_loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # the event loop is closed
                return
            if answered.wait(LIMIT):
                continue
            if time.monotonic() - asked > 2 * LIMIT:  # this thread did not run, either
                self._log.warning("Process halted", seconds=round(time.monotonic() - asked, 1))
                continue
            culprit = self._look()
            if culprit is None:
                continue
            while not answered.wait(LIMIT):
                if self._stopped.is_set():
                    return
            self._log.warning(
                "Event loop blocked",
                controller=culprit.controller,
                object=culprit.object,
                seconds=round(time.monotonic() - asked, 1),
                at=culprit.at,
                hint="call blocking code with `await run_blocking(function, *args)`",
            )

    def _look(self) -> _BlockingTask | None:
        """Return what the event loop is doing; None if it runs no task and only lacks a processor."""
        task = asyncio.current_task(self._event_loop)
        if task is None:
            return None
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage] # documented, in spite of its name
        at = _position(frames.get(self._thread))
        for loop in self._loops:
            attempt = loop.attempt_in(task)
            if attempt is not None:
                return _BlockingTask(loop.controller.name, str(attempt.request), at)
        return _BlockingTask(None, task.get_name(), at)


def _position(frame: FrameType | None) -> str | None:
    """Return the position of a thread: the innermost frame outside libraries, if there is one."""
    innermost = frame
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    found = frame or innermost
    return f"{found.f_code.co_filename}:{found.f_lineno} in {found.f_code.co_name}" if found is not None else None
