"""Virtual time: the event loop that jumps, and the clock that a test moves."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from kubewright._runtime.clock import SystemClock, monotonic
from kubewright.testing import VirtualClock, VirtualTimeLoop

START = datetime(2026, 1, 1, tzinfo=UTC)


async def test_time_jumps_to_the_next_timer_when_nothing_is_ready() -> None:
    began = time.monotonic()
    await asyncio.sleep(86400)
    assert asyncio.get_running_loop().time() == 86400
    assert time.monotonic() - began < 20


async def test_timers_run_in_the_order_of_their_times() -> None:
    loop, calls = asyncio.get_running_loop(), list[tuple[str, float]]()
    for name, delay in (("b", 2), ("a", 1), ("d", 3)):
        loop.call_later(delay, lambda name=name: calls.append((name, loop.time())))  # type: ignore[misc]
    await asyncio.sleep(2.5)
    assert calls == [("a", 1), ("b", 2)]


async def test_a_timeout_expires_in_virtual_time() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3600):
            await asyncio.Event().wait()
    assert monotonic() == 3600


async def test_time_stands_still_while_tasks_run() -> None:
    async def busy() -> None:
        for _ in range(1000):
            await asyncio.sleep(0)

    await busy()
    assert asyncio.get_running_loop().time() == 0


async def test_settle_waits_for_a_chain_of_tasks_of_any_length() -> None:
    loop, ended = asyncio.get_running_loop(), list[int]()
    assert isinstance(loop, VirtualTimeLoop)

    async def chain(left: int) -> None:
        if left:
            await asyncio.create_task(chain(left - 1))
        else:
            ended.append(1)

    task = asyncio.create_task(chain(300))
    await loop.settle()
    assert ended
    assert loop.time() == 0
    await task


async def test_time_does_not_jump_while_a_thread_works() -> None:
    timer = asyncio.get_running_loop().call_later(3600, lambda: None)
    result = await asyncio.to_thread(lambda: time.sleep(0.01) or "done")
    assert result == "done"
    assert asyncio.get_running_loop().time() < 60
    timer.cancel()


async def test_time_does_not_jump_while_the_default_executor_shuts_down() -> None:
    class Slow(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            time.sleep(0.01)
            super().shutdown(wait, cancel_futures=cancel_futures)

    loop = asyncio.get_running_loop()
    loop.set_default_executor(Slow())
    async with asyncio.timeout(3600):
        await loop.shutdown_default_executor()
    assert loop.time() < 60


async def test_time_does_not_jump_while_a_socket_is_open_except_by_advance() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    server = await asyncio.start_server(lambda reader, writer: writer.write(b"hello"), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    async with asyncio.timeout(3600):
        assert await reader.readexactly(5) == b"hello"
    assert loop.time() < 60
    await loop.advance(timedelta(hours=2))
    assert loop.time() >= 7200
    writer.close()
    server.close()


async def test_the_clock_shows_the_time_of_a_virtual_loop(clock: VirtualClock) -> None:
    assert clock.now() == START
    await asyncio.sleep(90)
    assert clock.now() == START + timedelta(seconds=90)
    await clock.advance(timedelta(hours=1))
    assert clock.monotonic() == 3690


async def test_a_task_that_sleeps_continues_when_the_clock_is_moved(clock: VirtualClock) -> None:
    woken: list[datetime] = []

    async def sleeper() -> None:
        for _ in range(3):
            await clock.sleep(1)
            woken.append(clock.now())

    task = asyncio.create_task(sleeper())
    await clock.advance(2)
    assert woken == [START + timedelta(seconds=1), START + timedelta(seconds=2)]
    await clock.advance(1)
    assert task.done()


async def test_a_canceled_timer_does_not_run(clock: VirtualClock) -> None:
    calls: list[int] = []
    clock.call_later(1, lambda: calls.append(1)).cancel()
    await clock.advance(5)
    assert calls == []


def test_on_an_ordinary_loop_the_clock_moves_its_own_timers() -> None:
    async def check() -> None:
        clock, calls = VirtualClock(), list[datetime]()
        clock.call_later(2, lambda: calls.append(clock.now()))
        canceled = clock.call_later(1, lambda: calls.append(clock.now()))
        canceled.cancel()
        sleeping = asyncio.create_task(clock.sleep(3))
        await clock.advance(2.5)
        assert calls == [START + timedelta(seconds=2)]
        assert not sleeping.done()
        await clock.advance(1)
        await asyncio.wait_for(sleeping, 60)
        assert clock.now() == START + timedelta(seconds=3.5)

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(check())


async def test_the_systems_clock_waits_in_the_loops_time() -> None:
    clock = SystemClock()
    began = clock.monotonic()
    await clock.sleep(5)
    assert clock.monotonic() - began == 5
    assert abs(datetime.now(UTC) - clock.now()) < timedelta(minutes=1)
