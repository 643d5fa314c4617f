"""What a controller tells about its work. A metrics registry listens in; the default listens to nothing.

An observer is called on the hot path, from the event loop: it counts, and returns.
"""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """How a reconcile ended; the values are those of controller-runtime's `result` label."""

    SUCCESS = "success"
    ERROR = "error"
    REQUEUE = "requeue"
    REQUEUE_AFTER = "requeue_after"


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

    def failed(self, *, terminal: bool, panic: bool, timeout: bool) -> None:
        """A reconcile ended by an error, of these sorts."""
