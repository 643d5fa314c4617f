"""Steps: where a part of a request runs, and what it may do there.

The API server serves small requests on its event loop, in short steps that everybody else waits for, and large ones on
another thread, the worker. A few small documents are as much work as large ones, because their schema has large
defaults or expensive rules. What notices this calls `lengthen`, which interrupts a short step. Only the event loop
changes what others see, so a step on the worker that has to do so calls `on_loop`.

An interrupted step has had no effect, and begins again. Regular expressions and the compilation of CEL report their
effort beforehand, which is limited in both places.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, Literal, TypeAlias, TypeVar

from kubewright.machinery import effort
from kubewright.machinery.errors import RequestTooLarge

T = TypeVar("T")

_Place: TypeAlias = Literal["", "short", "worker"]

_SHORT: Final = 1 << 22
"""Units of effort in a short step: about 25 milliseconds."""
_MOST: Final = 1 << 30
"""Units of effort in a step on the worker: up to 6 seconds."""

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
    token, outer = _place.set("short"), effort.limit.set(_Effort(_SHORT))
    try:
        return step()
    finally:
        _place.reset(token)
        effort.limit.reset(outer)


def on_worker(step: Callable[[], T]) -> T:
    """Return the result of a step that runs on the worker, in a context of its own. Raises LoopNeeded."""
    _place.set("worker")
    effort.limit.set(_Effort(_MOST))
    return step()


class _Effort:
    """The effort that a step may still make."""

    __slots__ = ("_left",)

    def __init__(self, limit: int) -> None:
        self._left = limit

    def __call__(self, units: int) -> None:
        """Raise StepTooLong or RequestTooLarge if more effort follows than is left."""
        self._left -= units
        if self._left < 0:
            lengthen()
            raise RequestTooLarge("the expressions that apply to the object take too long to evaluate")


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
