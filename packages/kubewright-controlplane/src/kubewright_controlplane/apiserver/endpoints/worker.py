"""The worker: the thread that carries out the steps of large requests, while the event loop serves the others.

Small requests are served on the event loop, each in one short step. A large one is decoded, patched, defaulted,
admitted, validated and encoded on the worker. Only its commit is a step of the loop again. So there is one writer, and
a write is as atomic as without the worker.

What makes this safe
    A step owns the documents that it changes. Nobody else sees them before the step has returned.
    Stored entries and installed resources never change. They are replaced, by the event loop.
    `Store`, `ResourceSet`, `RBAC` and the compilers of schemas say that other threads may read them.
    What a step has read may be out of date at the commit, which checks it again: `Write.is_stale` and admission.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, TypeVar

from kubewright.machinery.errors import StatusDetails, TooManyRequests
from kubewright_controlplane.schema.steps import LoopNeeded, StepTooLong, on_worker, short

T = TypeVar("T")

LARGE: Final = 32 * 1024
"""Bytes of a body and of the stored object above which a write is large: the loop needs up to 2 µs for a byte."""
_MOST_WAITING: Final = 64
_BUSY: Final = "too many large requests, please try again later"


class Worker:
    """The thread, which runs one step at a time. Users take turns, so one with many requests delays others little."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kubewright-worker")
        self._turns = Turns()

    async def run(self, step: Callable[[], T], user: str) -> T:
        """Return the result of a step, which runs when it is the user's turn. Raises LoopNeeded and TooManyRequests."""
        await self._turns.take(user)
        context = copy_context()
        # a cancelled request leaves a step that runs, so the turn ends with the step
        future = asyncio.get_running_loop().run_in_executor(self._thread, lambda: context.run(on_worker, step))
        future.add_done_callback(self._end_turn)
        return await asyncio.shield(future)

    def _end_turn(self, future: asyncio.Future[T]) -> None:
        if not future.cancelled():
            future.exception()  # it may be that nobody waits for it anymore
        self._turns.release()

    def close(self) -> None:
        """End the thread after its current step."""
        self._thread.shutdown(wait=False, cancel_futures=True)


class Turns:
    """Whose turn it is: each user has a queue, and the queues take turns.

    If too many requests wait, the newest of the user who has most of them is rejected.
    """

    def __init__(self) -> None:
        self._taken = False
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def take(self, user: str) -> None:
        """Wait for a turn. Raises TooManyRequests."""
        if not self._taken:
            self._taken = True
            return
        if sum(map(len, self._queues.values())) >= _MOST_WAITING:
            self._make_room(user)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(user, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            elif (queue := self._queues.get(user)) is not None and turn in queue:
                queue.remove(turn)
            raise

    def release(self) -> None:
        """Give the turn to the next user."""
        self._taken = False
        while self._queues and not self._taken:
            user, queue = self._queues.popitem(last=False)
            while queue and not self._taken:
                turn = queue.popleft()
                if not turn.done():  # it was cancelled, and its request has not removed it yet
                    self._taken = True
                    turn.set_result(None)
            if queue:
                self._queues[user] = queue

    def _make_room(self, user: str) -> None:
        """Reject a request of the user who has most of them. Raises TooManyRequests if that is `user`."""
        longest = max(self._queues.values(), key=len)
        if len(self._queues.get(user, ())) + 1 >= len(longest):
            raise _busy()
        turn = longest.pop()
        if not turn.done():
            turn.set_exception(_busy())


def _busy() -> TooManyRequests:
    return TooManyRequests(_BUSY, details=StatusDetails(retry_after_seconds=1))


class Steps:
    """The steps of one request: on the event loop while they are short, otherwise on the worker."""

    def __init__(self, worker: Worker, user: str) -> None:
        self.are_large = False
        self._worker = worker
        self._user = user

    async def run(self, step: Callable[[], T]) -> T:
        """Return the result of a step, which begins again if it is interrupted."""
        if not self.are_large:
            try:
                return short(step)
            except StepTooLong:
                self.are_large = True
        while True:
            try:
                return await self._worker.run(step, self._user)
            except LoopNeeded as needed:
                needed.call()

    async def run_once(self, step: Callable[[], T]) -> T:
        """Return the result of a step that cannot begin again. Raises StepTooLong if the event loop cannot run it."""
        if self.are_large:
            return await self._worker.run(step, self._user)
        return short(step)
