"""Running many awaitables with a limited number of workers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator


async def run_concurrently(work: Iterator[Awaitable[None]], workers: int) -> None:
    """Await every item of `work`, at most `workers` at a time."""

    async def worker() -> None:
        for item in work:
            await item

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(worker())
