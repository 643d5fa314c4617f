"""The worker of large requests: users take turns, and none of them can take it from the others."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from kubewright.machinery.errors import TooManyRequests
from kubewright_controlplane.apiserver.endpoints.worker import Turns, Worker


@asynccontextmanager
async def busy_worker() -> AsyncGenerator[tuple[Worker, Callable[[], None]]]:
    """Return a worker whose thread is busy until the function is called."""
    worker, gate = Worker(), threading.Event()
    first = asyncio.create_task(worker.run(gate.wait, "first"))
    await asyncio.sleep(0)
    try:
        yield worker, gate.set
    finally:
        gate.set()
        await first
        worker.close()


async def test_a_request_that_is_cancelled_as_its_turn_comes_does_not_keep_the_turn() -> None:
    turns = Turns()
    await turns.take("alice")
    cancelled, next_one = (asyncio.create_task(turns.take(user)) for user in ("alice", "bob"))
    await asyncio.sleep(0)
    cancelled.cancel()
    turns.release()  # in the same iteration of the event loop
    async with asyncio.timeout(5):
        await next_one
        with pytest.raises(asyncio.CancelledError):
            await cancelled
    turns.release()
    await turns.take("carol")


async def test_one_user_cannot_fill_the_queue_for_others() -> None:
    async with busy_worker() as (worker, finish):
        flood = [asyncio.create_task(worker.run(lambda: "flood", "mallory")) for _ in range(64)]
        await asyncio.sleep(0)
        other = asyncio.create_task(worker.run(lambda: "served", "alice"))
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests):
            await worker.run(lambda: "flood", "mallory")
        finish()
        assert await other == "served"
        answers = await asyncio.gather(*flood, return_exceptions=True)
        assert sum(isinstance(each, TooManyRequests) for each in answers) == 1


async def test_few_large_answers_are_in_memory_at_a_time() -> None:
    worker, proceed = Worker(), asyncio.Event()
    making = 0

    async def answer(user: str) -> None:
        nonlocal making
        async with worker.answering(user):
            making += 1
            await proceed.wait()

    flood = [asyncio.create_task(answer("mallory")) for _ in range(64)]
    other = asyncio.create_task(answer("alice"))
    await asyncio.sleep(0)
    assert making == 4
    proceed.set()
    await asyncio.wait([other])
    assert not all(each.done() for each in flood), "users take turns"
    await asyncio.gather(*flood)
    assert making == 65
    worker.close()
