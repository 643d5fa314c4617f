"""The running reconcile: it identifies writes, log lines and spans.

It is a context variable, so functions and tasks that a reconcile starts can see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final, TypeAlias

from kubewright.cache._entry import ObjectKey
from kubewright.controllers._reconcile import Request

Cause: TypeAlias = tuple[str, str, ObjectKey, int]
"""The kind of the object that changed, the event, its key, and its version then; 0 for a deleted object."""

MAX_CAUSES: Final = 16
"""How many causes are kept for one reconcile. There can be thousands."""

_SHOWN: Final = 4


class Attempt:
    """One try at one request."""

    __slots__ = ("allows_deletes", "causes", "number", "progressed", "request")

    def __init__(self, request: Request, number: int, causes: Sequence[Cause]) -> None:
        self.request = request
        self.number = number
        """1 for a first try; one more for each failure in a row before it."""
        self.causes = causes
        """The events that triggered it; empty for a retry, a requeue, or a source of the program."""
        self.progressed = False
        """It created or deleted an object, or wrote an object that was not written recently."""
        self.allows_deletes = False
        """Its object has the annotation that allows many deletes."""

    @property
    def shown_causes(self) -> str | None:
        """The first causes, for people: `Deployment default/web update, WebServer default/web add`."""
        shown = ", ".join(f"{kind} {key} {event}" for kind, event, key, _ in self.causes[:_SHOWN])
        return shown or None


CURRENT: Final[ContextVar[Attempt | None]] = ContextVar("kubewright_attempt", default=None)
"""The attempt that runs in this task."""
