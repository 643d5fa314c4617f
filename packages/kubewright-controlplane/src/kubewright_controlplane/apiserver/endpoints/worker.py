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
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import Final, TypeVar

from kubewright.machinery.errors import StatusDetails, TooManyRequests
from kubewright_controlplane.schema.steps import LoopNeeded, StepTooLong, on_worker, short

T = TypeVar("T")

LARGE: Final = 32 * 1024
"""Bytes of a body and of the stored object above which a write is large: the loop needs up to 2 µs for a byte."""
_MANY_PARTS: Final = 256
"""Objects in a body above which it is large: with its defaults, each may have ten times as many bytes."""
_MOST_WAITING: Final = 64
_ANSWERS: Final = 4
"""Large answers that are made and compressed at a time."""
_BUSY: Final = "too many large requests, please try again later"


def is_large(body: bytes) -> bool:
    """Return whether a body is that of a large request."""
    size = len(body)
    return size > LARGE or (size > LARGE // 8 and body.count(b"{") > _MANY_PARTS)


class Worker:
    """The thread, which runs one step at a time. Users take turns, so one with many requests delays others little."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kubewright-worker")
        self._turns = Turns()
        self._answers = Turns(_ANSWERS)

    @asynccontextmanager
    async def answering(self, user: str) -> AsyncGenerator[None]:
        """Make a large answer inside this block. Others wait before it, so few answers are in memory.

        Raises TooManyRequests.
        """
        await self._answers.take(user)
        try:
            yield
        finally:
            self._answers.release()

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
    """Whose turn it is: each user has a queue, and the queues take turns. `most` requests have one at a time.

    If too many requests wait, the newest of the user who has most of them is rejected.
    """

    def __init__(self, most: int = 1) -> None:
        self._free = most
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def take(self, user: str) -> None:
        """Wait for a turn. Raises TooManyRequests."""
        if self._free:
            self._free -= 1
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
        self._free += 1
        while self._queues and self._free:
            user, queue = self._queues.popitem(last=False)
            has_turn = False
            while queue and not has_turn:
                turn = queue.popleft()
                if not turn.done():  # it was cancelled, and its request has not removed it yet
                    self._free -= 1
                    has_turn = True
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

    @asynccontextmanager
    async def answering(self) -> AsyncGenerator[None]:
        """Make an answer inside this block, which waits for its turn if it is large. Raises TooManyRequests."""
        if not self.are_large:
            yield
            return
        async with self._worker.answering(self._user):
            yield

    async def run_once(self, step: Callable[[], T]) -> T:
        """Return the result of a step that cannot begin again. Raises StepTooLong if the event loop cannot run it."""
        if self.are_large:
            return await self._worker.run(step, self._user)
        return short(step)
