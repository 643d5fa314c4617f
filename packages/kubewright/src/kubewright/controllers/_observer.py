"""What a controller tells about its work. A metrics registry listens in; the default listens to nothing.

An observer is called on the hot path, from the event loop: it counts, and returns.
"""

from __future__ import annotations

from kubewright.cache._entry import EventType
from kubewright.controllers._outcome import Failure, Outcome


class QueueObserver:
    """Told of what goes through one work queue. Times are in seconds."""

    def added(self) -> None:
        """A request was asked for."""

    def taken(self, waited: float) -> None:
        """A request was handed out, `waited` after it was due."""

    def done(self, worked: float) -> None:
        """A request was given back."""

    def retried(self) -> None:
        """A request comes again because its work failed."""


class ControllerObserver(QueueObserver):
    """Told of the reconciles of one controller as well."""

    def reconciled(self, outcome: Outcome, seconds: float) -> None:
        """A reconcile ended."""

    def failed(self, failure: Failure) -> None:
        """A reconcile ended by an error of this sort. Not told of what is no error: GONE, CONFLICT."""

    def causes(self, kind: str) -> dict[EventType, int]:
        """How many events of objects of `kind` have asked for reconciles. The controller counts in it."""
        return {"add": 0, "update": 0, "delete": 0}

    def looping(self) -> None:
        """A hot loop was found, or goes on."""

    def deletes_stopped(self) -> None:
        """A delete was not sent, since the fuse has blown."""

    def paused(self, objects: int) -> None:
        """So many objects are paused now."""
