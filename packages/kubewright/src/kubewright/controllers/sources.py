"""Where requests come from that a controller's own watches do not see.

    Channel     requests that some other part of the program makes: a webhook from outside, a message
    Every       all objects, or some, at an interval
    Polling     what an outside system says of objects: asked at an interval, those whose answer changed

A source gives requests from when the controller begins to work, which is after the election: standbys ask nobody.

Follows controller-runtime's pkg/source; timers and polling follow the Java Operator SDK's event sources.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeAlias

from kubewright._runtime.clock import Clock, Timer
from kubewright._runtime.log import get_logger
from kubewright.cache._lister import Lister
from kubewright.controllers._queue import LOW_PRIORITY
from kubewright.controllers._reconcile import Request
from kubewright.machinery.errors import ConfigError


class Enqueue(Protocol):
    """Asks for the reconcile of an object. Called on the event loop."""

    def __call__(self, request: Request, *, priority: int = 0) -> None: ...


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A controller that wants requests."""

    enqueue: Enqueue
    objects: Lister[Any]
    """The cached objects of the controller's kind."""
    clock: Clock


class Source(Protocol):
    """Gives requests to controllers for as long as they run. One may feed several, in several Managers."""

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber.enqueue` for each request from now on, on the event loop. Returns what ends that."""
        ...


class Channel(Source):
    """Requests made by the program itself: `channel.send(Request("default", "web"))`.

    What is sent while no controller works is dropped: one that starts looks at every object anyway.
    """

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def send(self, request: Request) -> None:
        """Ask for a reconcile. From the event loop's thread only; from another use `loop.call_soon_threadsafe`."""
        for subscriber in self._subscribers:
            subscriber.enqueue(request)


Choice: TypeAlias = Callable[[Lister[Any]], Iterable[Request]]
"""Of the cached objects of the controller's kind, those to reconcile."""


class Every(Source):
    """A reconcile of every object each `interval`, or of those that `choose` names.

    For what changes without an event: time itself. They wait behind what happens meanwhile. When only some objects
    need it, `Result(requeue_after=...)` from their reconcile is the better way.
    """

    def __init__(self, interval: timedelta, choose: Choice | None = None) -> None:
        self._interval = _seconds("Every", interval)
        self._choose = choose or _all

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        timer: Timer

        def tick() -> None:
            nonlocal timer
            timer = subscriber.clock.call_later(self._interval, tick)
            for request in self._choose(subscriber.objects):
                subscriber.enqueue(request, priority=LOW_PRIORITY)

        timer = subscriber.clock.call_later(self._interval, tick)
        return lambda: timer.cancel()


Fetch: TypeAlias = Callable[[], Awaitable[Mapping[Request, object]]]
"""What the outside system says now, by the object that it concerns. Answers are compared with `==`."""


class Polling(Source):
    """Requests for objects of which an outside system says something new.

    `fetch` is called at once and each `interval` after it has returned. A request is made for each object that is new
    in its answer, gone from it, or whose value differs from the last time. A `fetch` that raises is logged, and tried
    again after `interval`; what changed meanwhile is found then.
    """

    def __init__(self, interval: timedelta, fetch: Fetch) -> None:
        self._interval = _seconds("Polling", interval)
        self._fetch = fetch
        self._log = get_logger("kubewright.controller.sources")

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        task = asyncio.create_task(self._poll(subscriber), name="polling")

        def end() -> None:
            task.cancel()

        return end

    async def _poll(self, subscriber: Subscriber) -> None:
        known: Mapping[Request, object] = {}
        while True:
            try:
                found = await self._fetch()
            except Exception as error:  # noqa: BLE001 - the user's code, and the world outside; the next poll may do
                self._log.warning("Poll failed", error=f"{type(error).__name__}: {error}")
            else:
                for request in {**known, **found}:
                    if request not in known or request not in found or known[request] != found[request]:
                        subscriber.enqueue(request)
                known = dict(found)
            await subscriber.clock.sleep(self._interval)


def _all(objects: Lister[Any]) -> Iterable[Request]:
    return [entry.key for entry in objects.entries()]


def _seconds(source: str, interval: timedelta) -> float:
    if interval <= timedelta(0):
        raise ConfigError(f"{source}({interval}): an interval is longer than nothing")
    return interval.total_seconds()
