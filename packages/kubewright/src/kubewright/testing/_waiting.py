"""Waiting for what a control plane does in its own time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, ParamSpec, TypeVar

from kubewright.machinery.errors import NotFound

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE: Final = timedelta(seconds=120)
"""More than the slowest part of a real control plane takes on a busy machine: its garbage collector looks for new kinds
every 30 s, and was seen to take 40.
"""
_FIRST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.25


async def eventually(function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
    """What `function` gives, once it neither raises NotFound nor an AssertionError.

    Tries again for up to `PATIENCE`, then raises what the last try raised. Any other error ends it at once.

        service = await eventually(client.get, Service, "web-service", namespace="d")
    """
    deadline = time.monotonic() + PATIENCE.total_seconds()
    pause = _FIRST_PAUSE
    while True:
        try:
            return await function(*args, **kwargs)
        except (AssertionError, NotFound):
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


async def gone(function: Callable[P, Awaitable[object]], *args: P.args, **kwargs: P.kwargs) -> None:
    """Wait until `function` raises NotFound.

    await gone(client.get, Service, "web-service", namespace="d")
    """

    async def check() -> None:
        try:
            found = await function(*args, **kwargs)
        except NotFound:
            return
        raise AssertionError(f"still there: {found}")

    await eventually(check)
