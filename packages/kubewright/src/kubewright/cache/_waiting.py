"""Waiting for something to become true of a thing that says when it has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kubewright._runtime.clock import Clock


class Waiters:
    """Those who wait for a condition. Costs nothing while there are none."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[bool]]] = []

    def changed(self) -> None:
        """Look again: whose condition has come true goes on."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for condition, future in waiting:
            if future.done():
                continue
            if condition():
                future.set_result(True)
            else:
                self._waiting.append((condition, future))

    async def until(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `condition` is true, or for `timeout` seconds: whether it is."""
        if condition():
            return True
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def expire() -> None:
            if not future.done():
                future.set_result(False)

        self._waiting.append((condition, future))
        timer = self._clock.call_later(timeout, expire) if timeout is not None else None
        try:
            return await future
        finally:
            if timer is not None:
                timer.cancel()
