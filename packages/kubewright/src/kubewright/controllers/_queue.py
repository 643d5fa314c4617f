"""The work queue: which requests need a reconcile, and when.

A request that is added again before it is taken is one entry; a request that is added while it is being worked on
is handed out once more after that work is done, never beside it. Order: priority first, then arrival; an entry's
priority rises by one for each `AGEING` it waits, so that nothing starves.

Follows client-go's util/workqueue and controller-runtime's priority queue; ageing is ours.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Final

from kubewright._runtime.clock import Clock, SystemClock, Timer
from kubewright.controllers._observer import QueueObserver
from kubewright.controllers._ratelimit import Bucket, RateLimit
from kubewright.controllers._reconcile import Request

AGEING: Final = timedelta(milliseconds=100)
"""The wait that outweighs one step of priority."""

LOW_PRIORITY: Final = -100
"""Of requests that no change asked for: an informer's first list. Ten seconds of waiting make up for it."""

_NOW: Final = timedelta(0)
_AGEING: Final = AGEING.total_seconds()
_MAX_DOUBLINGS: Final = 63
"""Keeps the power finite; the limit has long been reached."""


class QueueClosed(Exception):
    """The queue hands out nothing more."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait after each failure in a row: `base`, twice that, and so on up to `limit`.

    `jitter` is the part of the wait that is left to chance: with 0.1 a wait of 10 s is one of 10 to 11 s.
    `attempts` is how often a request is tried in all before it is given up until something changes; None for ever.
    Defaults are controller-runtime's.
    """

    base: timedelta = timedelta(milliseconds=5)
    limit: timedelta = timedelta(seconds=1000)
    jitter: float = 0.0
    attempts: int | None = None

    def is_last(self, attempt: int) -> bool:
        """Whether a failure of this attempt, counted from 1, is not followed by another."""
        return self.attempts is not None and attempt >= self.attempts

    def delay(self, failures: int) -> timedelta:
        """The wait after `failures` (at least one) in a row."""
        doublings = min(failures - 1, _MAX_DOUBLINGS)
        wait = min(self.base.total_seconds() * 2.0**doublings, self.limit.total_seconds())
        return timedelta(seconds=wait * (1 + self.jitter * random.random()))


class _Entry:
    """A request that waits. Superseded by another entry rather than changed, since heaps keep it in its place."""

    __slots__ = ("due", "priority", "request", "superseded")

    def __init__(self, request: Request, priority: int, due: float) -> None:
        self.request = request
        self.priority = priority
        self.due = due
        self.superseded = False


class WorkQueue:
    """Deduplicating, delaying, rate-limited queue of requests for one controller. Belongs to one event loop.

    Guarantees
        A request added is handed out at least once after the `add` that asked for it.
        No request is in two hands at a time.
        After `close`, `take` raises `QueueClosed`, and what is added is dropped.
    Not guaranteed
        One hand-out for each `add`: adds are merged.
    """

    def __init__(
        self,
        *,
        backoff: Backoff | None = None,
        rate_limit: RateLimit | None = None,
        clock: Clock | None = None,
        observer: QueueObserver | None = None,
    ) -> None:
        """`backoff` is between the retries of one request; `rate_limit` holds for those of all together."""
        self._backoff = backoff or Backoff()
        self._retries = Bucket(rate_limit) if rate_limit is not None else None
        self._clock: Clock = clock or SystemClock()
        self._observer = observer or QueueObserver()
        self._waiting: dict[Request, _Entry] = {}
        self._in_hand: dict[Request, float] = {}
        self._again: dict[Request, _Entry] = {}
        self._failures: dict[Request, int] = {}
        self._ready: list[tuple[float, int, _Entry]] = []
        self._delayed: list[tuple[float, int, _Entry]] = []
        self._sequence = 0
        self._takers: deque[asyncio.Future[None]] = deque()
        self._timer: Timer | None = None
        self._closed = False

    def add(self, request: Request, *, priority: int = 0, after: timedelta = _NOW) -> None:
        """Ask for `request` to be reconciled, at the earliest `after` from now.

        A waiting request keeps the higher priority and the earlier time of the two.
        """
        if self._closed:
            return
        self._observer.added()
        now = self._clock.monotonic()
        due = now + after.total_seconds() if after else now
        if request in self._in_hand:
            self._again[request] = _merged(self._again.get(request), request, priority, due)
            return
        waiting = self._waiting.get(request)
        entry = _merged(waiting, request, priority, due)
        if entry is not waiting:
            if waiting is not None:
                waiting.superseded = True
            self._push(entry, now)

    def take(self) -> Hand:
        """The next request that is due: `async with queue.take() as request`. Leaving the block gives it back.

        Left by an exception, the request comes again after its backoff: `backoff.delay(failures)`. Left without one,
        its failures are forgotten. Raises `QueueClosed` on entry once the queue is closed.
        """
        return Hand(self._hand_out, self._wait_for_work, self._give_back)

    def failures(self, request: Request) -> int:
        """How often in a row the work on `request` ended by an exception."""
        return self._failures.get(request, 0)

    def close(self) -> None:
        """Hand out nothing more. What is in hand may still be given back."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for entry in (*self._waiting.values(), *self._again.values()):
            entry.superseded = True
        self._waiting.clear()
        self._again.clear()
        self._ready.clear()
        self._delayed.clear()
        while self._takers:
            self._wake_one()

    @property
    def depth(self) -> int:
        """Requests that are due and not in hand."""
        self._ripen()
        return sum(not entry.superseded for _, _, entry in self._ready)

    def in_hand(self) -> Iterator[float]:
        """For each request in hand, for how long it has been, in seconds."""
        now = self._clock.monotonic()
        return iter([now - since for since in self._in_hand.values()])

    def _hand_out(self) -> Request | None:
        """The first request that is due, now in hand; None when there is none."""
        if self._closed:
            raise QueueClosed
        if self._delayed:
            self._ripen()
        while self._ready:
            entry = heapq.heappop(self._ready)[2]
            if not entry.superseded:
                request = entry.request
                del self._waiting[request]
                now = self._in_hand[request] = self._clock.monotonic()
                self._observer.taken(now - entry.due)
                if self._takers:
                    self._pass_on()
                return request
        return None

    async def _wait_for_work(self) -> None:
        taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._takers.append(taker)
        self._arm()
        try:
            await taker
        except asyncio.CancelledError:
            if taker.done() and not taker.cancelled():
                self._wake_one()  # it was woken for work that someone else must do now
            elif taker in self._takers:  # who wakes the next one passes over the cancelled, and drops them
                self._takers.remove(taker)
            raise

    def _give_back(self, request: Request, failed: bool) -> None:
        now = self._clock.monotonic()
        self._observer.done(now - self._in_hand.pop(request))
        again = self._again.pop(request, None)
        if self._closed:
            return
        if failed:
            failures = self._failures[request] = self.failures(request) + 1
            self._observer.retried()
            wait = self._backoff.delay(failures).total_seconds()
            if self._retries is not None:
                wait = max(wait, self._retries.wait(now))
            again = _merged(again, request, 0, now + wait)
        else:
            self._failures.pop(request, None)
        if again is not None:
            self._push(again, now)

    def _push(self, entry: _Entry, now: float) -> None:
        self._waiting[entry.request] = entry
        self._sequence += 1
        if entry.due <= now:
            self._push_ready(entry, self._sequence)
            self._wake_one()
        else:
            heapq.heappush(self._delayed, (entry.due, self._sequence, entry))
            if self._takers and self._delayed[0][2] is entry:
                self._arm()

    def _push_ready(self, entry: _Entry, sequence: int) -> None:
        # Priorities age alike, so the order of two entries never changes: a priority is worth a head start.
        heapq.heappush(self._ready, (entry.due - entry.priority * _AGEING, sequence, entry))

    def _ripen(self) -> None:
        """Move what has become due from the delayed to the ready."""
        now = self._clock.monotonic()
        while self._delayed and (self._delayed[0][2].superseded or self._delayed[0][0] <= now):
            _, sequence, entry = heapq.heappop(self._delayed)
            if not entry.superseded:
                self._push_ready(entry, sequence)

    def _pass_on(self) -> None:
        """Have the takers that still wait get what is left: now, or when it is due."""
        if self._ready:
            self._wake_one()
        else:
            self._arm()

    def _arm(self) -> None:
        """Wake a taker when the first delayed entry is due. Only while takers wait: busy ones look by themselves."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._delayed:
            self._timer = self._clock.call_later(self._delayed[0][0] - self._clock.monotonic(), self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._wake_one()

    def _wake_one(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return


class Hand:
    """One request in hand, from `WorkQueue.take`."""

    __slots__ = ("_give_back", "_hand_out", "_request", "_wait")

    def __init__(
        self,
        hand_out: Callable[[], Request | None],
        wait: Callable[[], Awaitable[None]],
        give_back: Callable[[Request, bool], None],
    ) -> None:
        self._hand_out = hand_out
        self._wait = wait
        self._give_back = give_back
        self._request: Request | None = None

    async def __aenter__(self) -> Request:
        while (request := self._hand_out()) is None:
            await self._wait()
        self._request = request
        return request

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._request is not None:
            self._give_back(self._request, error is not None)


def _merged(waiting: _Entry | None, request: Request, priority: int, due: float) -> _Entry:
    """The entry that stands for what waits and for what is asked now; the waiting one itself when it does already."""
    if waiting is None:
        return _Entry(request, priority, due)
    if priority <= waiting.priority and due >= waiting.due:
        return waiting
    return _Entry(request, max(priority, waiting.priority), min(due, waiting.due))
