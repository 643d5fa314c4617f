"""The work queue, on a clock that the tests move."""

import asyncio
from datetime import timedelta

import pytest

from kubewright.controllers._queue import LOW_PRIORITY, ControllerQueue, QueueClosed, WorkQueue
from kubewright.controllers._reconcile import QueueObserver, Request
from kubewright.controllers._retry import Backoff, RateLimit, Retry
from kubewright.testing import VirtualClock

WEB = Request("default", "web")
SHOP = Request("default", "shop")
MAIL = Request("default", "mail")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def queue(clock: VirtualClock) -> WorkQueue:
    return WorkQueue(clock=clock)


async def drain(queue: WorkQueue) -> list[Request]:
    """Return the requests that are due now, in the order in which one worker gets them."""
    taken: list[Request] = []
    while queue.depth:
        async with queue.take() as request:
            taken.append(request)
    return taken


async def fail(queue: WorkQueue, meanwhile: Request | None = None) -> None:
    """Take a request and fail at it; `meanwhile` is added during the work."""
    async with queue.take():
        if meanwhile is not None:
            queue.add(meanwhile)
        raise RuntimeError


class Worker:
    """Takes requests until the queue is closed, and records them."""

    def __init__(self, queue: WorkQueue) -> None:
        self.taken: list[Request] = []
        self._queue = queue
        self.task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while True:
            try:
                async with self._queue.take() as request:
                    self.taken.append(request)
            except QueueClosed:
                return


async def test_a_request_added_twice_before_it_is_taken_is_one_entry(queue: WorkQueue) -> None:
    queue.add(WEB)
    queue.add(SHOP)
    queue.add(WEB)
    assert await drain(queue) == [WEB, SHOP]


async def test_a_request_added_during_its_work_is_handed_out_again_afterwards(
    queue: WorkQueue,
) -> None:
    queue.add(WEB)
    async with queue.take() as request:
        assert request == WEB
        queue.add(WEB)
        queue.add(WEB)
        assert queue.depth == 0
    assert await drain(queue) == [WEB]


async def test_a_waiting_worker_gets_what_is_added(queue: WorkQueue, clock: VirtualClock) -> None:
    worker = Worker(queue)
    await clock.advance(0)
    queue.add(WEB)
    await clock.advance(0)
    assert worker.taken == [WEB]


async def test_higher_priority_goes_first_and_arrival_decides_among_equals(queue: WorkQueue) -> None:
    queue.add(MAIL, priority=LOW_PRIORITY)
    queue.add(WEB)
    queue.add(SHOP)
    assert await drain(queue) == [WEB, SHOP, MAIL]


async def test_a_low_priority_request_that_waited_long_enough_goes_before_a_new_one(
    queue: WorkQueue, clock: VirtualClock
) -> None:
    queue.add(MAIL, priority=LOW_PRIORITY)
    await clock.advance(9.9)
    queue.add(WEB)
    await clock.advance(0.2)
    queue.add(SHOP)
    assert await drain(queue) == [WEB, MAIL, SHOP]


async def test_a_waiting_request_keeps_the_higher_of_two_priorities(queue: WorkQueue) -> None:
    queue.add(WEB)
    queue.add(SHOP, priority=LOW_PRIORITY)
    queue.add(SHOP, priority=5)
    queue.add(SHOP, priority=LOW_PRIORITY)
    assert await drain(queue) == [SHOP, WEB]


async def test_a_delayed_request_is_handed_out_when_it_is_due(queue: WorkQueue, clock: VirtualClock) -> None:
    worker = Worker(queue)
    queue.add(WEB, after=timedelta(seconds=10))
    await clock.advance(9.999)
    assert worker.taken == []
    await clock.advance(0.001)
    assert worker.taken == [WEB]


async def test_the_earlier_of_two_times_holds(queue: WorkQueue, clock: VirtualClock) -> None:
    worker = Worker(queue)
    queue.add(WEB, after=timedelta(seconds=10))
    queue.add(WEB, after=timedelta(seconds=1))
    queue.add(WEB, after=timedelta(seconds=20))
    await clock.advance(1)
    assert worker.taken == [WEB]
    await clock.advance(60)
    assert worker.taken == [WEB]


async def test_an_event_is_not_delayed_by_a_later_requeue(queue: WorkQueue, clock: VirtualClock) -> None:
    queue.add(WEB, after=timedelta(minutes=10))
    queue.add(WEB)
    assert await drain(queue) == [WEB]
    await clock.advance(timedelta(minutes=10))
    assert queue.depth == 0


async def test_requests_that_fall_due_together_reach_all_idle_workers(queue: WorkQueue, clock: VirtualClock) -> None:
    started: list[Request] = []
    release = asyncio.Event()

    async def work() -> None:
        async with queue.take() as request:
            started.append(request)
            await release.wait()

    workers = [asyncio.create_task(work()) for _ in range(3)]
    for request in (WEB, SHOP, MAIL):
        queue.add(request, after=timedelta(seconds=1))
    await clock.advance(1)
    assert sorted(started) == sorted([WEB, SHOP, MAIL])
    release.set()
    await asyncio.gather(*workers)


async def test_an_idle_worker_wakes_for_a_later_time_while_another_is_busy_with_the_first(
    queue: WorkQueue, clock: VirtualClock
) -> None:
    started: list[Request] = []

    async def work_for_ever() -> None:
        async with queue.take() as request:
            started.append(request)
            await asyncio.Event().wait()

    workers = [asyncio.create_task(work_for_ever()) for _ in range(2)]
    queue.add(WEB, after=timedelta(seconds=1))
    queue.add(SHOP, after=timedelta(seconds=2))
    await clock.advance(1)
    assert started == [WEB]
    await clock.advance(1)
    assert started == [WEB, SHOP]
    for each in workers:
        each.cancel()


async def test_failures_in_a_row_double_the_delay_up_to_the_limit(clock: VirtualClock) -> None:
    queue = WorkQueue(clock=clock, backoff=Backoff(base=timedelta(seconds=1), limit=timedelta(seconds=5)))
    queue.add(WEB)
    waits: list[float] = []
    for _ in range(5):
        failed_at = clock.monotonic()
        with pytest.raises(RuntimeError):
            await fail(queue)
        while not queue.depth:
            await clock.advance(0.5)
        waits.append(clock.monotonic() - failed_at)
    assert waits == [1, 2, 4, 5, 5]


async def test_a_success_resets_the_failures(queue: WorkQueue, clock: VirtualClock) -> None:
    queue.add(WEB)
    with pytest.raises(RuntimeError):
        await fail(queue)
    assert queue.failures(WEB) == 1
    await clock.advance(1)
    async with queue.take():
        pass
    assert queue.failures(WEB) == 0
    assert queue.depth == 0


async def test_an_event_during_work_that_fails_is_not_delayed_by_the_backoff(clock: VirtualClock) -> None:
    queue = WorkQueue(clock=clock, backoff=Backoff(base=timedelta(hours=1)))
    queue.add(WEB)
    with pytest.raises(RuntimeError):
        await fail(queue, meanwhile=WEB)
    assert queue.depth == 1


def test_the_default_backoff_is_5_ms_doubled_up_to_1000_s() -> None:
    backoff = Backoff()
    delays = [backoff.delay(failures) for failures in (1, 2, 3, 18, 19, 10_000)]
    assert delays == [0.005, 0.01, 0.02, 655.36, 1000, 1000]


def test_jitter_lengthens_a_delay_by_at_most_its_part() -> None:
    backoff = Backoff(base=timedelta(seconds=10), jitter=0.1)
    delays = {backoff.delay(1) for _ in range(50)}
    assert len(delays) > 1
    assert all(10 <= each < 11 for each in delays)


async def test_close_ends_waiting_and_later_workers(queue: WorkQueue, clock: VirtualClock) -> None:
    worker = Worker(queue)
    await clock.advance(0)
    queue.close()
    await worker.task
    queue.add(WEB)
    with pytest.raises(QueueClosed):
        async with queue.take():
            pytest.fail("a closed queue handed something out")


async def test_a_request_in_progress_can_be_returned_after_close(queue: WorkQueue) -> None:
    queue.add(WEB)
    async with queue.take():
        queue.add(WEB)
        queue.close()
    assert list(queue.in_progress()) == []
    with pytest.raises(QueueClosed):
        async with queue.take():
            pytest.fail("a closed queue handed something out")


async def test_a_worker_that_is_cancelled_while_it_waits_loses_nothing(queue: WorkQueue, clock: VirtualClock) -> None:
    first, second = Worker(queue), Worker(queue)
    await clock.advance(0)
    queue.add(WEB)  # wakes the first
    first.task.cancel()
    await clock.advance(0)
    assert first.taken == []
    assert second.taken == [WEB]


async def test_workers_that_are_cancelled_when_they_are_woken_lose_nothing(queue: WorkQueue) -> None:
    workers = [Worker(queue) for _ in range(3)]
    await asyncio.sleep(0)
    for worker in workers:
        worker.task.cancel()
    queue.add(WEB)
    ended = await asyncio.gather(*(worker.task for worker in workers), return_exceptions=True)
    assert [type(each) for each in ended] == [asyncio.CancelledError] * 3
    assert await drain(queue) == [WEB]


async def test_the_observer_is_notified_of_adds_waits_work_and_retries(clock: VirtualClock) -> None:
    heard: list[tuple[str, float]] = []

    class Recorder(QueueObserver):
        def added(self) -> None:
            heard.append(("added", 0))

        def taken(self, waited: float) -> None:
            heard.append(("taken", waited))

        def done(self, worked: float) -> None:
            heard.append(("done", worked))

        def retried(self) -> None:
            heard.append(("retried", 0))

    queue = ControllerQueue(Retry(), clock=clock, observer=Recorder())
    queue.add(WEB)
    await clock.advance(2)
    async with queue.take():
        await clock.advance(3)
        assert list(queue.in_progress()) == [3]
    queue.add(WEB)
    with pytest.raises(RuntimeError):
        await fail(queue)
    assert heard == [
        ("added", 0),
        ("taken", 2),
        ("done", 3),
        ("added", 0),
        ("taken", 0),
        ("done", 0),
        ("retried", 0),
    ]


class TimedWorker(Worker):
    """Records when it got its requests."""

    def __init__(self, queue: WorkQueue, clock: VirtualClock) -> None:
        self.times: list[float] = []
        self._clock = clock
        super().__init__(queue)

    async def _work(self) -> None:
        while True:
            try:
                async with self._queue.take():
                    self.times.append(self._clock.monotonic())
            except QueueClosed:
                return


async def test_a_debounced_request_is_due_when_its_events_pause(clock: VirtualClock) -> None:
    queue = WorkQueue(clock=clock, debounce=1)
    worker = TimedWorker(queue, clock)
    for _ in range(4):
        queue.add_event(WEB)
        await clock.advance(0.75)
    await clock.advance(60)
    assert worker.times == [3.25]  # the last event was at 2.25


async def test_events_without_a_pause_delay_a_request_by_ten_debounces_at_most(clock: VirtualClock) -> None:
    queue = WorkQueue(clock=clock, debounce=timedelta(seconds=1))
    worker = TimedWorker(queue, clock)
    for _ in range(100):
        queue.add_event(WEB)
        await clock.advance(0.25)
    await clock.advance(60)
    assert worker.times == [10, 20, 25.75]


async def test_each_request_has_its_own_debounce(clock: VirtualClock) -> None:
    queue = WorkQueue(clock=clock, debounce=1)
    worker = Worker(queue)
    queue.add_event(WEB)
    await clock.advance(0.5)
    queue.add_event(SHOP)
    await clock.advance(0.5)
    assert worker.taken == [WEB]
    await clock.advance(0.5)
    assert worker.taken == [WEB, SHOP]


async def test_a_debounce_delays_neither_retries_nor_requeues_nor_the_first_list(clock: VirtualClock) -> None:
    queue = WorkQueue(clock=clock, debounce=10, backoff=Backoff(base=1))
    queue.add_event(WEB, initial=True)
    queue.add(SHOP, after=2)
    queue.add_event(SHOP)
    assert queue.depth == 1
    with pytest.raises(RuntimeError):
        await fail(queue)
    await clock.advance(1)
    assert await drain(queue) == [WEB]
    await clock.advance(1)
    assert await drain(queue) == [SHOP]
    await clock.advance(60)
    assert queue.depth == 0  # the hand-out after 2 s came after the event, too


async def test_events_during_work_are_debounced_too(clock: VirtualClock) -> None:
    queue = WorkQueue(clock=clock, debounce=1)
    queue.add(WEB)
    async with queue.take():
        queue.add_event(WEB)
        await clock.advance(0.5)
        queue.add_event(WEB)
    await clock.advance(0.75)
    assert queue.depth == 0
    await clock.advance(0.25)
    assert await drain(queue) == [WEB]


async def test_events_of_one_request_pass_no_faster_than_its_rate_limit_and_are_merged(clock: VirtualClock) -> None:
    queue = WorkQueue(clock=clock, key_rate_limit=RateLimit(per_second=0.1, burst=2))
    worker = TimedWorker(queue, clock)
    for _ in range(25):
        queue.add_event(WEB)
        await clock.advance(1)
    assert worker.times == [0, 1, 10, 20]
    await clock.advance(60)
    assert worker.times == [0, 1, 10, 20, 30]  # the events after 20 s were not lost


async def test_the_rate_limit_of_one_request_delays_no_other_and_no_retry(clock: VirtualClock) -> None:
    queue = WorkQueue(clock=clock, key_rate_limit=RateLimit(per_second=0.1, burst=1), backoff=Backoff(base=1))
    queue.add_event(WEB)
    queue.add_event(SHOP)
    assert await drain(queue) == [WEB, SHOP]
    queue.add_event(WEB)
    queue.add(SHOP)
    assert await drain(queue) == [SHOP]
    queue.add(WEB)
    with pytest.raises(RuntimeError):
        await fail(queue)
    await clock.advance(1)
    assert await drain(queue) == [WEB]


async def test_a_request_is_debounced_and_limited(clock: VirtualClock) -> None:
    queue = WorkQueue(clock=clock, debounce=1, key_rate_limit=RateLimit(per_second=0.1, burst=1))
    worker = TimedWorker(queue, clock)
    for _ in range(3):
        queue.add_event(WEB)
        await clock.advance(4)
    await clock.advance(60)
    assert worker.times == [1, 10]


async def test_a_request_keeps_the_higher_priority_while_it_is_debounced(clock: VirtualClock) -> None:
    queue = WorkQueue(clock=clock, debounce=1)
    queue.add_event(SHOP, priority=LOW_PRIORITY)
    queue.add_event(SHOP, priority=5)
    queue.add_event(WEB)
    await clock.advance(1)
    assert await drain(queue) == [SHOP, WEB]


async def test_a_work_item_that_fails_is_handed_out_again_after_its_backoff(clock: VirtualClock) -> None:
    queue = WorkQueue(clock=clock, backoff=Backoff(base=1))
    queue.add(WEB)
    item = queue.take()
    async with item as request:
        assert request == WEB
        item.fail()
    assert (queue.failures(WEB), queue.depth) == (1, 0)
    await clock.advance(1)
    assert await drain(queue) == [WEB]


async def test_the_queue_knows_nothing_about_requests_that_are_done(clock: VirtualClock) -> None:
    limit = RateLimit(per_second=1, burst=5)
    queue = ControllerQueue(Retry(), debounce=1, key_rate_limit=limit, clock=clock, observer=QueueObserver())
    for number in range(100):
        queue.add_event(Request("default", f"web-{number}"))
    await clock.advance(1)
    await drain(queue)
    await clock.advance(10)
    queue.add(WEB)
    await drain(queue)
    assert queue.known == 0
