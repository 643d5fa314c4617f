"""The outcomes of reconciles: the meaning of exceptions, and observers."""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from traceback import walk_tb
from types import TracebackType
from typing import Final, cast

from kubewright.cache._entry import EventType
from kubewright.controllers._types import Request
from kubewright.machinery.errors import APIError, Conflict, DeadlineExceeded, KubewrightError, NotFound, TerminalError
from kubewright.models import Object


class Outcome(StrEnum):
    """How a reconcile ended. The values are those of controller-runtime's `result` label."""

    SUCCESS = "success"
    ERROR = "error"
    REQUEUE = "requeue"
    REQUEUE_AFTER = "requeue_after"


class Failure(Enum):
    """The meaning of an exception."""

    GONE = auto()
    """The object itself was deleted in the meantime. Not an error; not retried."""
    NAMESPACE_ENDING = auto()
    """Nothing can be created, because the namespace is being deleted. Retried; an error only in a finalizer."""
    CONFLICT = auto()
    """The object changed in the meantime. Retried within a second; not an error."""
    TERMINAL = auto()
    """A retry cannot help. Not retried until something changes."""
    TIMEOUT = auto()
    """The reconcile took longer than the controller's timeout. Retried."""
    MISTAKE = auto()
    """An error in the code, such as a TypeError. Retried, and counted as controller-runtime counts panics."""
    ERROR = auto()
    """Anything else. Retried."""


class ReconcileTimeout(DeadlineExceeded):
    """A reconcile took longer than the controller's timeout and was cancelled."""


_MISTAKES: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RecursionError, TypeError,
)  # fmt: skip


def classify(error: BaseException, kind: type[Object], request: Request) -> Failure:
    """Classify `error`, which the reconcile of `request`, an object of `kind`, raised."""
    if isinstance(error, NotFound) and _is_about(error, kind, request):
        return Failure.GONE
    if isinstance(error, APIError) and error.namespace_is_ending:
        return Failure.NAMESPACE_ENDING
    if isinstance(error, Conflict):
        return Failure.CONFLICT
    if isinstance(error, TerminalError):
        return Failure.TERMINAL
    if isinstance(error, ReconcileTimeout):
        return Failure.TIMEOUT
    return Failure.MISTAKE if isinstance(error, _MISTAKES) else Failure.ERROR


def explains_itself(error: BaseException) -> bool:
    """Return whether the message is enough. Otherwise the log shows the traceback too."""
    return isinstance(error, (KubewrightError, OSError))


def traceback_of(error: BaseException, below: str) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """Return `exc_info` for `logging`, without the frames of the file `below` at the start of the traceback."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == below:
        trace = trace.tb_next
    return type(error), error, trace


def place_of(error: BaseException, module: str) -> str | None:
    """Return `file:line` of the innermost call in the top-level package of `module`; None if there is none.

    `module` is that of the reconcile function, so this is the line of the operator's own code that failed.
    """
    package = module.partition(".")[0]
    place = None
    for frame, line in walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package:
            place = f"{frame.f_code.co_filename}:{line}"
    return place


def unwrapped(error: Exception) -> Exception:
    """Return the first error of a task group whose errors are all of one class, and any other error as it is."""
    if not isinstance(error, ExceptionGroup):
        return error
    group = cast("ExceptionGroup[Exception]", error)
    first, *others = group.exceptions
    return unwrapped(first) if all(type(each) is type(first) for each in others) else group


def _is_about(error: NotFound, kind: type[Object], request: Request) -> bool:
    """Return whether the missing object is the reconciled object itself, or its namespace."""
    api, details = kind.__api__, error.status.details
    if details is None:
        return False
    missing = (details.group, details.kind, details.name)
    return missing in ((api.group, api.plural, request.name), ("", "namespaces", request.namespace))


class QueueObserver:
    """Is notified of the requests in one work queue. All times are seconds.

    Observers are called on the event loop for every request, so they count and return. This class does nothing.
    """

    def added(self) -> None:
        """Called when a request was added."""

    def taken(self, waited: float) -> None:
        """Called when a worker took a request, `waited` seconds after it was due."""

    def done(self, worked: float) -> None:
        """Called when a worker returned a request."""

    def retried(self) -> None:
        """Called when a request will be retried, because its reconcile failed."""


class ControllerObserver(QueueObserver):
    """Is notified of the reconciles of one controller too."""

    def reconciled(self, outcome: Outcome, seconds: float) -> None:
        """Called when a reconcile ended."""

    def failed(self, failure: Failure) -> None:
        """Called when a reconcile ended with an error, but not for GONE and CONFLICT."""

    def causes(self, kind: str) -> dict[EventType, int]:
        """Return the counters of the events of `kind` that caused reconciles. The controller increments them."""
        return {"add": 0, "update": 0, "delete": 0}

    def looping(self) -> None:
        """Called when a hot loop was found, or continues."""

    def deletes_stopped(self) -> None:
        """Called when the delete fuse stopped a delete."""

    def paused(self, objects: int) -> None:
        """Called when the number of paused objects changed to `objects`."""
