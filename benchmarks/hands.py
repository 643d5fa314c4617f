"""Work that several hands share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator


async def share(works: Iterator[Awaitable[None]], hands: int) -> None:
    """Do all of `works`, that many at a time."""

    async def hand() -> None:
        for work in works:
            await work

    async with asyncio.TaskGroup() as group:
        for _ in range(hands):
            group.create_task(hand())
