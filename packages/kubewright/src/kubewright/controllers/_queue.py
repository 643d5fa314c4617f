"""The work queue: which requests need a reconcile, and when.

A request that is added again before a worker takes it is one entry. A request that is added while a worker has it is
handed out again after that worker is done, never at the same time. Order: priority, then arrival. The priority of a
waiting request rises by one for each `AGEING`, so no request starves.

Events can be delayed: with a debounce, until the events of a request pause; with a key rate limit, until the request
may be reconciled again. Both delay the request and merge its events. They drop nothing.

Follows client-go's util/workqueue and controller-runtime's priority queue; ageing and debounce are ours.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Final

from kubewright._runtime.clock import Clock, SystemClock, Timer, time_source
from kubewright.controllers._reconcile import MAX_CAUSES, Cause, QueueObserver, Request
from kubewright.controllers._retry import Backoff, Bucket, RateLimit, Retry
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.time import Seconds, seconds

AGEING: Final = 0.1
"""Seconds of waiting that are worth one step of priority."""

LOW_PRIORITY: Final = -100
"""The priority of requests without a change, such as an informer's first list. Ten seconds of waiting outweigh it."""

DEBOUNCE_LIMIT: Final = 10
"""A debounced request is due at the latest this many times the debounce after its first event."""

_NEVER: Final = math.inf


class QueueClosed(Exception):
    """The queue is closed and hands out nothing."""


class RequestState:
    """What one controller knows about one request. The queue keeps it as long as there is something to know."""

    __slots__ = (
        "bucket", "causes", "conflicts", "deletes_stopped", "due", "error", "error_logged_at", "event_due", "failures",
        "first_event", "not_before", "paused", "priority", "queued_for", "request", "sequence", "taken_at", "warned",
    )  # fmt: skip

    def __init__(self, request: Request) -> None:
        self.request = request
        self.due = _NEVER
        """When it is due because of a retry, a requeue or an `add`."""
        self.event_due = _NEVER
        """When it is due because of events."""
        self.first_event = _NEVER
        """When the first event arrived that no worker has taken yet."""
        self.not_before = 0.0
        """The time that the key rate limit allows for these events."""
        self.priority = 0
        self.queued_for = _NEVER
        """The time under which it is in a heap."""
        self.sequence = 0
        """Number of its entry in a heap; 0 while it is in none. Entries with other numbers are out of date."""
        self.taken_at: float | None = None
        """When a worker took it; None while no worker has it."""
        self.bucket: Bucket | None = None
        """What is left of its key rate limit."""
        self.causes: list[Cause] | None = None
        """The events since a worker took it the last time."""
        self.failures = 0
        """Failures in a row, which are retried with backoff."""
        self.conflicts = 0
        """Conflicts in a row, which are retried within a second."""
        self.error = ""
        """The last error, as it was logged."""
        self.error_logged_at = 0.0
        self.paused = False
        """Whether its object has the annotation that pauses it."""
        self.deletes_stopped = False
        """Whether the delete fuse stopped its last reconcile."""
        self.warned = False
        """Whether a warning Event of its object reports its failures, and no later Event a success."""

    def is_wanted(self) -> bool:
        """Return whether it was requested since a worker took it the last time."""
        return self.due < _NEVER or self.event_due < _NEVER

    def take_causes(self) -> Sequence[Cause]:
        """Return the events since the last call."""
        causes, self.causes = self.causes, None
        return causes or ()

    def succeeded(self) -> None:
        """Forget failures, conflicts, the last error and stopped deletes."""
        self.failures = self.conflicts = 0
        self.error = ""
        self.deletes_stopped = False

    def is_blank(self, now: float) -> bool:
        """Return whether there is nothing to know about the request."""
        return not (
            self.taken_at is not None
            or self.is_wanted()
            or self.failures
            or self.conflicts
            or self.error
            or self.paused
            or self.deletes_stopped
            or self.warned
            or (self.bucket is not None and self.bucket.drained_at > now)
        )


class WorkQueue:
    """Deduplicating, delaying, rate-limited queue of requests for one controller. Belongs to one event loop.

    Guarantees
        A request is handed out at least once after the `add` that asked for it.
        No two workers have the same request.
        After `close`, `take` raises `QueueClosed`, and `add` does nothing.
    Not guaranteed
        One hand-out per `add`: adds are merged.
    """

    def __init__(
        self,
        *,
        backoff: Backoff | None = None,
        rate_limit: RateLimit | None = None,
        debounce: Seconds = 0.0,
        key_rate_limit: RateLimit | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Create a queue.

        backoff: the delays between the retries of one request.
        rate_limit: a limit for the retries of all requests together.
        debounce: how long the events of a request must pause before it is due.
        key_rate_limit: a limit for the hand-outs that the events of one request cause.
        """
        self._retry = Retry(backoff or Backoff(), rate_limit)
        self._retries = Bucket(rate_limit) if rate_limit is not None else None
        self._debounce = seconds(debounce)
        if not 0 <= self._debounce < _NEVER:
            raise ConfigError(f"debounce must not be negative, got {self._debounce:g}")
        self._key_rate_limit = key_rate_limit
        self._delays_events = self._debounce > 0 or key_rate_limit is not None
        self._clock: Clock = clock or SystemClock()
        self._now = time_source(self._clock)
        self._observer = QueueObserver()
        self._states: dict[Request, RequestState] = {}
        self._ready: list[tuple[float, int, RequestState]] = []
        self._delayed: list[tuple[float, int, RequestState]] = []
        self._draining: deque[RequestState] = deque()
        """States that are kept for their rate limit only, roughly in the order in which it is over."""
        self._sequence = 0
        self._takers: deque[asyncio.Future[None]] = deque()
        self._timer: Timer | None = None
        self._closed = False

    def add(self, request: Request, *, priority: int = 0, after: Seconds = 0.0) -> None:
        """Schedule `request` to be handed out no earlier than `after` from now.

        If it is already waiting, it keeps the higher priority and the earlier time.
        """
        if self._closed:
            return
        self._observer.added()
        now = self._now()
        due = now + seconds(after) if after else now
        self._schedule(self._state_of(request), due, priority, now)

    def add_event(self, request: Request, *, priority: int = 0, initial: bool = False) -> None:
        """Schedule `request` because of an event: as soon as the debounce and the key rate limit allow it.

        The events of an informer's first list are `initial`: nothing delays them, and their priority is low.
        """
        if self._closed:
            return
        self._observer.added()
        now = self._now()
        state = self._state_of(request)
        if initial:
            self._schedule(state, now, LOW_PRIORITY, now)
        elif self._delays_events:
            self._schedule_later(state, priority, now)
        else:
            self._schedule(state, now, priority, now)

    def take(self) -> WorkItem:
        """Take the next request that is due: `async with queue.take() as request`. Leaving the block returns it.

        If the block raises, or calls `fail` of the item, the request is handed out again after its backoff. Otherwise
        its failures are forgotten. Entering the block raises `QueueClosed` after `close`.
        """
        return WorkItem(self)

    def failures(self, request: Request) -> int:
        """Return how often in a row the work on `request` failed."""
        state = self._states.get(request)
        return state.failures if state is not None else 0

    def forget(self, request: Request) -> None:
        """Forget the failures of a request that is neither waiting nor in progress: its object is deleted."""
        state = self._states.get(request)
        if state is not None and state.taken_at is None and not state.is_wanted():
            del self._states[request]

    def close(self) -> None:
        """Hand out nothing more. Workers can still return the requests that they have."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._states = {key: state for key, state in self._states.items() if state.taken_at is not None}
        self._ready.clear()
        self._delayed.clear()
        self._draining.clear()
        while self._takers:
            self._wake_one()

    @property
    def depth(self) -> int:
        """How many requests are due and not in progress."""
        self._move_due()
        return sum(state.sequence == sequence for _, sequence, state in self._ready)

    def in_progress(self) -> Iterator[float]:
        """Return, for each request that a worker has, for how many seconds the worker has had it."""
        now = self._now()
        return iter([now - state.taken_at for state in self._states.values() if state.taken_at is not None])

    # ---- from requests to heaps

    def _state_of(self, request: Request) -> RequestState:
        state = self._states.get(request)
        if state is None:
            state = self._states[request] = RequestState(request)
        return state

    def _schedule(self, state: RequestState, due: float, priority: int, now: float) -> None:
        raised = self._raise_priority(state, priority)
        if due < state.due:
            state.due = due
        if state.taken_at is None and (raised or due < state.queued_for):
            self._push(state, now)

    def _schedule_later(self, state: RequestState, priority: int, now: float) -> None:
        """Schedule `state` for its events. Each new event moves it further away, up to a limit."""
        is_due = min(state.due, state.event_due) <= now
        raised = self._raise_priority(state, priority)
        if is_due:  # nothing delays it now
            if raised and state.taken_at is None:
                self._push(state, now)
            return
        if state.first_event == _NEVER:
            state.first_event = now
            state.not_before = now + self._reserve(state, now)
        quiet = min(now + self._debounce, state.first_event + self._debounce * DEBOUNCE_LIMIT)
        state.event_due = max(quiet, state.not_before)
        if state.taken_at is None and (raised or state.event_due < state.queued_for):
            self._push(state, now)

    def _reserve(self, state: RequestState, now: float) -> float:
        if self._key_rate_limit is None:
            return 0.0
        if state.bucket is None:
            state.bucket = Bucket(self._key_rate_limit)
        return state.bucket.reserve(now)

    def _raise_priority(self, state: RequestState, priority: int) -> bool:
        """Return whether a request that waits gets a higher priority now."""
        if not state.is_wanted():
            state.priority = priority
        elif priority > state.priority:
            state.priority = priority
            return True
        return False

    def _push(self, state: RequestState, now: float) -> None:
        due = state.queued_for = min(state.due, state.event_due)
        self._sequence += 1
        state.sequence = self._sequence
        if due <= now:
            self._push_ready(state)
            self._wake_one()
        else:
            heapq.heappush(self._delayed, (due, state.sequence, state))
            if self._takers and self._delayed[0][2] is state:
                self._set_timer()

    def _push_ready(self, state: RequestState) -> None:
        # All priorities age alike, so the order of two entries never changes: a priority is a head start.
        heapq.heappush(self._ready, (state.queued_for - state.priority * AGEING, state.sequence, state))

    def _move_due(self) -> None:
        """Move the requests that are due from `_delayed` to `_ready`."""
        now = self._now()
        while self._delayed:
            due, sequence, state = self._delayed[0]
            is_current = state.sequence == sequence
            if is_current and due > now:
                return
            heapq.heappop(self._delayed)
            if is_current:
                state.queued_for = min(state.due, state.event_due)
                if state.queued_for > now:  # later events moved it
                    heapq.heappush(self._delayed, (state.queued_for, sequence, state))
                else:
                    self._push_ready(state)

    # ---- from heaps to workers

    def _hand_out(self) -> RequestState | None:
        """Return the first request that is due, for a worker that takes it now; None if none is due."""
        if self._closed:
            raise QueueClosed
        if self._delayed:
            self._move_due()
        while self._ready:
            _, sequence, state = heapq.heappop(self._ready)
            if state.sequence == sequence:
                now = state.taken_at = self._now()
                self._observer.taken(now - state.queued_for)
                state.sequence = 0
                state.due = state.event_due = state.first_event = state.queued_for = _NEVER
                if self._takers:
                    self._pass_on()
                return state
        return None

    async def _wait_for_work(self) -> None:
        taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._takers.append(taker)
        self._set_timer()
        try:
            await taker
        except asyncio.CancelledError:
            if taker.done() and not taker.cancelled():
                self._wake_one()  # this worker was woken for work that another worker must do now
            elif taker in self._takers:  # `_wake_one` drops cancelled takers as well
                self._takers.remove(taker)
            raise

    def _give_back(self, state: RequestState, failed: bool) -> None:
        now = self._now()
        if state.taken_at is not None:
            self._observer.done(now - state.taken_at)
            state.taken_at = None
        if self._closed:
            self._states.pop(state.request, None)
            return
        if failed:
            state.failures += 1
            self._observer.retried()
            delay = self._retry.backoff.delay(state.failures)
            if self._retries is not None:
                delay = max(delay, self._retries.reserve(now))
            self._raise_priority(state, 0)
            state.due = min(state.due, now + delay)
        else:
            state.failures = 0
        if state.is_wanted():
            self._push(state, now)
        else:
            self._drop_if_blank(state, now)

    def _drop_if_blank(self, state: RequestState, now: float) -> None:
        if state.is_blank(now):
            del self._states[state.request]
        elif state.bucket is not None:
            self._draining.append(state)
        while self._draining and self._is_drained(self._draining[0], now):
            drained = self._draining.popleft()
            if drained.is_blank(now) and self._states.get(drained.request) is drained:
                del self._states[drained.request]

    def _is_drained(self, state: RequestState, now: float) -> bool:
        return state.bucket is None or state.bucket.drained_at <= now or state.is_wanted()

    def _pass_on(self) -> None:
        """Wake another worker for the remaining requests: now, or when the first one is due."""
        if self._ready:
            self._wake_one()
        else:
            self._set_timer()

    def _set_timer(self) -> None:
        """Wake a worker when the first delayed request is due. Only for idle workers: busy workers look themselves."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._delayed:
            self._timer = self._clock.call_later(self._delayed[0][0] - self._now(), self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self._wake_one()

    def _wake_one(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return


class WorkItem:
    """One request that a worker takes, from `WorkQueue.take`."""

    __slots__ = ("_failed", "_queue", "_state")

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue
        self._state: RequestState | None = None
        self._failed = False

    def fail(self) -> None:
        """Make the queue hand out the request again after its backoff."""
        self._failed = True

    async def __aenter__(self) -> Request:
        while (state := self._queue._hand_out()) is None:
            await self._queue._wait_for_work()
        self._state = state
        return self._state.request

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._state is not None:
            self._queue._give_back(self._state, self._failed or error is not None)


class ControllerQueue(WorkQueue):
    """The queue of a controller: it keeps what the controller knows about its requests, and notifies an observer."""

    def __init__(
        self,
        retry: Retry,
        *,
        debounce: Seconds = 0.0,
        key_rate_limit: RateLimit | None = None,
        clock: Clock | None = None,
        observer: QueueObserver,
    ) -> None:
        super().__init__(
            backoff=retry.backoff,
            rate_limit=retry.rate_limit,
            debounce=debounce,
            key_rate_limit=key_rate_limit,
            clock=clock,
        )
        self._observer = observer

    def add_caused(self, request: Request, cause: Cause, *, initial: bool = False) -> None:
        """Add the event `cause`, which is kept for logs until a worker takes the request."""
        self.add_event(request, initial=initial)
        state = self._states.get(request)
        if state is None:  # closed
            return
        if state.causes is None:
            state.causes = [cause]
        elif len(state.causes) < MAX_CAUSES:
            state.causes.append(cause)

    async def next(self) -> RequestState:
        """Wait for the next request that is due, and hand it out, as `take` does without a coroutine for each step.

        The caller must call `give_back`. Raises `QueueClosed` after `close`.
        """
        while (state := self._hand_out()) is None:
            await self._wait_for_work()
        return state

    def give_back(self, state: RequestState, *, failed: bool) -> None:
        """Return a request from `next`. If the work on it failed, it is handed out again after its backoff."""
        self._give_back(state, failed)

    def state(self, request: Request) -> RequestState | None:
        """Return what is known about `request`; None if there is nothing to know."""
        return self._states.get(request)

    @property
    def known(self) -> int:
        """How many requests the queue keeps a state for: they wait, are in progress, have failed, or are paused."""
        return len(self._states)
