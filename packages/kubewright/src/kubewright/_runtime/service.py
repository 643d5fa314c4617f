"""Something that runs in the background of a block: a manager, or an object that contains one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Protocol


class Service(Protocol):
    """Works from `run` to `stop`, and is ready some time after it has begun."""

    async def run(self) -> None:
        """Work until `stop` is called. Raises the error that ended it early."""

    async def wait_ready(self) -> None:
        """Wait until the service is ready."""

    def stop(self) -> None:
        """Make `run` return."""


@asynccontextmanager
async def in_background(service: Service, *, name: str | None = None) -> AsyncGenerator[None]:
    """Run `service` in a task of that name while the block runs, from the moment when it is ready.

    At the end of the block it is stopped gracefully. If the service fails meanwhile, the block is cancelled and the
    failure is raised from it.
    """
    task = asyncio.create_task(service.run(), name=name)
    ready = asyncio.create_task(service.wait_ready())
    interruption = _Interruption(task)
    try:
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        interruption.arm()
        try:
            yield
        finally:
            await interruption.disarm()
    finally:
        ready.cancel()
        service.stop()
        await task


class _Interruption:
    """Cancels the block of a service that has failed, so that the block does not wait for it."""

    def __init__(self, service: asyncio.Task[None]) -> None:
        self._service = service
        self._block = asyncio.current_task()
        self._requests = self._block.cancelling() if self._block is not None else 0
        self._cancelled = False

    def arm(self) -> None:
        self._service.add_done_callback(self._interrupt)

    async def disarm(self) -> None:
        """Raise the failure in place of the cancellation. A cancellation by anyone else stays one."""
        self._service.remove_done_callback(self._interrupt)
        if not self._cancelled or self._block is None:
            return
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)  # takes a cancellation that has not been delivered yet
        if self._block.uncancel() <= self._requests:
            self._service.result()

    def _interrupt(self, service: asyncio.Task[None]) -> None:
        failed = not service.cancelled() and service.exception() is not None
        # The block of a pytest fixture ends in another task than it began in: it is not interrupted.
        if failed and self._block is not None and not self._block.done():
            self._cancelled = self._block.cancel()
