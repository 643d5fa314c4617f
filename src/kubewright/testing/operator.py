"""Running an operator inside a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from kubewright.manager import Manager


@asynccontextmanager
async def running(manager: Manager) -> AsyncGenerator[Manager]:
    """`manager` at work for as long as the block lasts, then stopped gracefully.

    What makes the manager fail fails the block.
    """
    task = asyncio.create_task(manager.run())
    ready = asyncio.create_task(manager.wait_ready())
    try:
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield manager
    finally:
        ready.cancel()
        manager.stop()
        await task
