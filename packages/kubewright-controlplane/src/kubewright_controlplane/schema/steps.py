"""Steps: where a part of a request runs, and what it may do there.

The API server serves small requests on its event loop, in short steps that everybody else waits for, and large ones on
another thread, the worker. A few small documents are as much work as large ones, because their schema has large
defaults or expensive rules. What notices this calls `lengthen`, which interrupts a short step. Only the event loop
changes what others see, so a step on the worker that has to do so calls `on_loop`.

An interrupted step has had no effect, and begins again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Literal, TypeAlias, TypeVar

T = TypeVar("T")

_Place: TypeAlias = Literal["", "short", "worker"]

_place: ContextVar[_Place] = ContextVar("place", default="")


class StepTooLong(Exception):
    """A short step would take long."""


class LoopNeeded(Exception):
    """A step on the worker begins again when the event loop has made a call."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__()
        self.call = call


def short(step: Callable[[], T]) -> T:
    """Return the result of a step that everybody else waits for. Raises StepTooLong."""
    token = _place.set("short")
    try:
        return step()
    finally:
        _place.reset(token)


def on_worker(step: Callable[[], T]) -> T:
    """Return the result of a step that runs on the worker, in a context of its own. Raises LoopNeeded."""
    _place.set("worker")
    return step()


def is_short() -> bool:
    """Return whether everybody else waits for the end of the current step."""
    return _place.get() == "short"


def lengthen() -> None:
    """Announce much work. Raises StepTooLong in a short step."""
    if is_short():
        raise StepTooLong


def on_loop(call: Callable[[], object]) -> None:
    """Make a call that changes what others see. Raises LoopNeeded on the worker."""
    if _place.get() == "worker":
        raise LoopNeeded(call)
    call()
