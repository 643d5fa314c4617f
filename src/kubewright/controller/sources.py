"""Where events come from that a controller's own watches do not see.

A `Channel` carries requests that some other part of the program makes: a webhook from outside, a timer, a poll.

Follows controller-runtime's pkg/source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kubewright.controller.reconcile import Request

Enqueue = Callable[[Request], None]


class Source(Protocol):
    """Gives requests to a controller for as long as it runs."""

    def subscribe(self, enqueue: Enqueue) -> Callable[[], None]:
        """Call `enqueue` for each request from now on, on the event loop. Returns what ends that."""
        ...


class Channel:
    """Requests made by the program itself: `channel.send(Request("default", "web"))`.

    May feed several controllers. What is sent while none listens is dropped: a controller that starts looks at every
    object anyway.
    """

    def __init__(self) -> None:
        self._subscribers: list[Enqueue] = []

    def subscribe(self, enqueue: Enqueue) -> Callable[[], None]:
        self._subscribers.append(enqueue)
        return lambda: self._subscribers.remove(enqueue)

    def send(self, request: Request) -> None:
        """Ask for a reconcile. From the event loop's thread only; from another use `loop.call_soon_threadsafe`."""
        for enqueue in self._subscribers:
            enqueue(request)
