"""Something that runs, for a block: a Manager, or what has one within it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol


class Runnable(Protocol):
    """What works from `run` to `stop`, and is ready some time after it has begun."""

    async def run(self) -> None:
        """Work until `stop` is called. Raises what it fails of."""

    async def wait_ready(self) -> None:
        """Wait until it is ready."""

    def stop(self) -> None:
        """Have `run` come to its end."""


@asynccontextmanager
async def working(what: Runnable, *, name: str | None = None) -> AsyncGenerator[None]:
    """Have it at work from the moment when it is ready to the end of the block, where it is stopped gracefully.

    Raises what makes it fail. `name` is that of its task.
    """
    task = asyncio.create_task(what.run(), name=name)
    ready = asyncio.create_task(what.wait_ready())
    try:
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield
    finally:
        ready.cancel()
        what.stop()
        await task
