"""The virtual clock moves only when told, and runs what falls due."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from kubewright._runtime.clock import SystemClock, VirtualClock


async def test_timers_run_in_the_order_of_their_times() -> None:
    clock = VirtualClock()
    ran: list[tuple[str, float]] = []
    for name, delay in (("late", 3), ("soon", 1), ("also soon", 1), ("never", 9)):
        clock.call_later(delay, lambda name=name: ran.append((name, clock.monotonic())))
    await clock.advance(timedelta(seconds=5))
    assert ran == [("soon", 1), ("also soon", 1), ("late", 3)]
    assert clock.monotonic() == 5


async def test_a_cancelled_timer_does_not_run() -> None:
    clock = VirtualClock()
    ran: list[int] = []
    clock.call_later(1, lambda: ran.append(1)).cancel()
    await clock.advance(2)
    assert ran == []


async def test_sleepers_wake_at_their_time_and_may_sleep_again() -> None:
    clock = VirtualClock()
    woken: list[float] = []

    async def sleeper() -> None:
        for _ in range(3):
            await clock.sleep(10)
            woken.append(clock.monotonic())

    task = asyncio.create_task(sleeper())
    await clock.advance(25)
    assert woken == [10, 20]
    await clock.advance(5)
    assert task.done()


async def test_time_of_day_moves_with_it() -> None:
    clock = VirtualClock()
    start = clock.now()
    await clock.advance(90)
    assert clock.now() - start == timedelta(seconds=90)


async def test_a_sleep_can_be_given_up() -> None:
    clock = VirtualClock()
    task = asyncio.create_task(clock.sleep(10))
    await clock.advance(1)
    task.cancel()
    await clock.advance(20)
    assert task.cancelled()


async def test_the_system_clock_keeps_time_with_the_event_loop() -> None:
    clock = SystemClock()
    called = asyncio.Event()
    clock.call_later(0.001, called.set)
    await clock.sleep(0)
    await called.wait()
    assert clock.now().utcoffset() == timedelta(0)
