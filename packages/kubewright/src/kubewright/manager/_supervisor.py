"""Keeps the tasks of one run together: a stop reaches all of them, and the failure of one stops the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from kubewright.machinery.errors import LeadershipLost

R = TypeVar("R")


class StoppedEarly(Exception):
    """The stop came before what was waited for."""


class Supervisor:
    """The tasks of one run of a manager."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        """The first error that a task ended by."""
        self.stopping = asyncio.Event()
        """A stop was asked for, or is necessary."""
        self.halting = asyncio.Event()
        """There is no time to be graceful: another process may lead soon."""

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task whose failure stops all."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._look_at)
        return task

    async def or_stop(self, work: Coroutine[Any, Any, R]) -> R:
        """The outcome of `work`. Raises StoppedEarly when the stop comes first."""
        task, stop = asyncio.create_task(work), asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise StoppedEarly
            return task.result()
        finally:
            await end([task, stop])

    async def finish(self, tasks: Sequence[asyncio.Task[Any]], seconds: float) -> None:
        """Wait for the end of `tasks`, for up to `seconds`, and no longer when there is no time to be graceful."""
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
    """Cancel what still runs of `tasks` and wait for its end. What they raised has been looked at."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
