"""Running an operator inside a test."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from kubewright.manager import Manager


@asynccontextmanager
async def running(manager: Manager) -> AsyncGenerator[Manager]:
    """Run `manager` while the block runs. The same as `async with manager:`."""
    async with manager:
        yield manager
