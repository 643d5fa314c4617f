"""The tasks of one run: a stop reaches all of them, and the failure of one stops the others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from kubewright.machinery.errors import LeadershipLost

R = TypeVar("R")


class StoppedEarly(Exception):
    """The stop came before the result."""


class Supervisor:
    """The tasks of one run of a manager."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        """The first error of a task."""
        self.stopping = asyncio.Event()
        """Set when a stop was requested or is required."""
        self.halting = asyncio.Event()
        """Set when there is no time for a graceful stop, because another process may lead soon."""

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task whose failure stops the run."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._look_at)
        return task

    async def or_stop(self, work: Coroutine[Any, Any, R]) -> R:
        """Return the result of `work`. Raises StoppedEarly if the stop comes first."""
        task, stop = asyncio.create_task(work), asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise StoppedEarly
            return task.result()
        finally:
            await end([task, stop])

    async def finish(self, tasks: Sequence[asyncio.Task[Any]], seconds: float) -> None:
        """Wait until `tasks` end, for at most `seconds`, or until `halting` is set."""
        halt = asyncio.create_task(self.halting.wait())
        ends: list[asyncio.Future[Any]] = [asyncio.gather(*tasks, return_exceptions=True), halt]
        try:
            await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end([halt])

    def _look_at(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        self.failure = self.failure or error
        self.stopping.set()
        if isinstance(error, LeadershipLost):
            self.halting.set()


async def end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel those of `tasks` that still run, and wait for them. Their errors are not raised."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
