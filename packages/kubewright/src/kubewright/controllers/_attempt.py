"""The reconcile that runs: what its writes, its log lines and its spans are told apart by.

It is found through a context variable, so that it is known to whatever a reconcile calls, in tasks of its own too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final, TypeAlias

from kubewright.cache._entry import ObjectKey
from kubewright.controllers._reconcile import Request

Cause: TypeAlias = tuple[str, str, ObjectKey, int]
"""Kind of the object that changed, what became of it, which it was, and its version then; 0 for one that is gone."""

MAX_CAUSES: Final = 16
"""Causes that are kept for one reconcile. There can be thousands."""

_SHOWN: Final = 4


class Attempt:
    """One try at one request."""

    __slots__ = ("allows_deletes", "causes", "number", "progressed", "request")

    def __init__(self, request: Request, number: int, causes: Sequence[Cause]) -> None:
        self.request = request
        self.number = number
        """1 for a first try; one more for each failure in a row before it."""
        self.causes = causes
        """Events that asked for it. None for a retry, a time that was over, or a source of the program's own."""
        self.progressed = False
        """It made or removed an object, or wrote one that was not written lately."""
        self.allows_deletes = False
        """Its object says that many deletes are meant."""

    @property
    def shown_causes(self) -> str | None:
        """The first causes, for people: `Deployment default/web update, WebServer default/web add`."""
        shown = ", ".join(f"{kind} {key} {event}" for kind, event, key, _ in self.causes[:_SHOWN])
        return shown or None


CURRENT: Final[ContextVar[Attempt | None]] = ContextVar("kubewright_attempt", default=None)
"""The attempt that runs in this task."""
