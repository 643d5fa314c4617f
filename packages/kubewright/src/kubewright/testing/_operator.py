"""Running an operator inside a test."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from kubewright.manager import Manager
from kubewright.manager._working import working


@asynccontextmanager
async def running(manager: Manager) -> AsyncGenerator[Manager]:
    """`manager` at work for as long as the block lasts, then stopped gracefully.

    What makes the manager fail fails the block.
    """
    async with working(manager):
        yield manager
