"""Sources: requests that do not come from the controller's own watches.

    Channel     requests from another part of the program, such as a webhook endpoint or a message queue
    Every       all objects, or some of them, at an interval
    Polling     objects for which an external system returns a new value, polled at an interval

A source runs while its controller runs, which is after the leader election. Standby processes do not poll.

Follows controller-runtime's pkg/source. Timers and polling follow the Java Operator SDK's event sources.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from kubewright._runtime.clock import Clock, Timer
from kubewright._runtime.log import get_logger
from kubewright.cache._store import Lister
from kubewright.controllers._queue import LOW_PRIORITY
from kubewright.controllers._reconcile import Request
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.time import Seconds, seconds


class Enqueue(Protocol):
    """Requests the reconcile of an object. Called on the event loop."""

    def __call__(self, request: Request, *, priority: int = 0) -> None: ...


class Subscriber(msgspec.Struct, frozen=True):
    """A controller that receives requests."""

    enqueue: Enqueue
    objects: Lister[Any]
    """The cached objects of the controller's kind."""
    clock: Clock


class Source(Protocol):
    """Sends requests to controllers while they run. One source may serve several controllers and Managers."""

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber.enqueue` for each request from now on. Returns a function that ends the subscription."""
        ...


class Channel(Source):
    """Requests that the program sends: `channel.send(Request("default", "web"))`.

    Requests that are sent while no controller runs are dropped: a controller reconciles every object when it starts.
    """

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Send requests to `subscriber` as well."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def send(self, request: Request) -> None:
        """Request a reconcile. Only for the event loop's thread; elsewhere use `loop.call_soon_threadsafe`."""
        for subscriber in self._subscribers:
            subscriber.enqueue(request)


Choice: TypeAlias = Callable[[Lister[Any]], Iterable[Request]]
"""Returns the objects to reconcile, given the cached objects of the controller's kind."""


class Every(Source):
    """A reconcile of every object, or of those that `choose` returns, at each `interval`.

    For changes that cause no event, such as the passing of time. These requests have a lower priority than events.
    To reconcile a single object later, return `Result(requeue_after=...)` instead.
    """

    def __init__(self, interval: Seconds, choose: Choice | None = None) -> None:
        self._interval = _checked("Every", interval)
        self._choose = choose or _all

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Start the timer for `subscriber`."""
        timer: Timer

        def tick() -> None:
            nonlocal timer
            timer = subscriber.clock.call_later(self._interval, tick)
            for request in self._choose(subscriber.objects):
                subscriber.enqueue(request, priority=LOW_PRIORITY)

        timer = subscriber.clock.call_later(self._interval, tick)
        return lambda: timer.cancel()


Fetch: TypeAlias = Callable[[], Awaitable[Mapping[Request, object]]]
"""Returns the current values of the external system, by the object that they concern. Values are compared by `==`."""


class Polling(Source):
    """Requests for the objects whose value in an external system changes.

    `fetch` is called immediately, and again `interval` after it returned. An object is requested if it is new in the
    result, missing from it, or has a different value than the last time. If `fetch` raises, the error is logged, and
    the next call finds what changed in the meantime.
    """

    def __init__(self, interval: Seconds, fetch: Fetch) -> None:
        self._interval = _checked("Polling", interval)
        self._fetch = fetch
        self._log = get_logger("kubewright.controller.sources")

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Start to poll for `subscriber`."""
        task = asyncio.create_task(self._poll(subscriber), name="polling")

        def end() -> None:
            task.cancel()

        return end

    async def _poll(self, subscriber: Subscriber) -> None:
        known: Mapping[Request, object] = {}
        while True:
            try:
                found = await self._fetch()
            except Exception as error:  # noqa: BLE001 - code of the user, and an external system; polled again
                self._log.warning("Poll failed", error=f"{type(error).__name__}: {error}")
            else:
                for request in {**known, **found}:
                    if request not in known or request not in found or known[request] != found[request]:
                        subscriber.enqueue(request)
                known = dict(found)
            await subscriber.clock.sleep(self._interval)


def _all(objects: Lister[Any]) -> Iterable[Request]:
    return [entry.key for entry in objects.entries()]


def _checked(source: str, interval: Seconds) -> float:
    if seconds(interval) <= 0:
        raise ConfigError(f"{source}: interval must be positive, got {seconds(interval):g} s")
    return seconds(interval)
