"""Operators that are killed, one after the other."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from kubewright.client import Transport
from kubewright.testing import Faults

from clusters import NewOperator

P = ParamSpec("P")
R = TypeVar("R")


class Mortal:
    """Operators that run one after the other, and are each killed after their first write, or at a random moment."""

    def __init__(
        self, connect: Callable[[], Transport], new_operator: NewOperator, chance: random.Random | None = None
    ) -> None:
        self._connect = connect
        self._new_operator = new_operator
        self._chance = chance
        self.lives = 0

    async def reach(self, check: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Start operators until one of them lives until `check` returns, and return its result."""
        waiting = asyncio.ensure_future(check(*args, **kwargs))
        while True:
            faults = Faults(transport=self._connect())
            self._doom(faults)
            async with self._new_operator(faults):
                self.lives += 1
                await faults.died_or(asyncio.wait_for, asyncio.shield(waiting), None)
            if waiting.done():
                return await waiting

    def _doom(self, faults: Faults) -> None:
        if self._chance is None:
            faults.dies_after = 1
        else:
            faults.storm(self._chance, share=0.05)
            asyncio.get_running_loop().call_later(self._chance.random() * 4, faults.die)
