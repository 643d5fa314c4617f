"""How reconciles end, and what an exception that ended one means."""

from __future__ import annotations

from enum import Enum, StrEnum
from types import TracebackType
from typing import Final, cast

from kubewright.controllers._reconcile import Request
from kubewright.machinery.errors import APIError, Conflict, DeadlineExceeded, KubewrightError, NotFound, TerminalError
from kubewright.models import Object


class Outcome(StrEnum):
    """How a reconcile ended; the values are those of controller-runtime's `result` label."""

    SUCCESS = "success"
    ERROR = "error"
    REQUEUE = "requeue"
    REQUEUE_AFTER = "requeue_after"


class Failure(Enum):
    """What an exception means."""

    GONE = "the object itself went away meanwhile; there is nothing to do"
    ENDING = "its namespace is being deleted, so that nothing can be created there; tried again, and no error"
    CONFLICT = "the object changed meanwhile; tried again soon, and no error"
    TERMINAL = "a retry cannot help; not tried again until something changes"
    TIMEOUT = "the reconcile took too long; tried again"
    MISTAKE = "an error of the code rather than of the world; tried again, and counted as Go counts panics"
    ERROR = "anything else; tried again"


class ReconcileTimeout(DeadlineExceeded):
    """The reconcile was cancelled because its time was over."""


_MISTAKES: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RecursionError, TypeError,
)  # fmt: skip


def classify(error: BaseException, kind: type[Object], request: Request) -> Failure:
    """What `error`, raised by the reconcile of `request`, an object of `kind`, means."""
    if isinstance(error, NotFound) and _is_about(error, kind, request):
        return Failure.GONE
    if isinstance(error, APIError) and error.namespace_is_ending:
        return Failure.ENDING
    if isinstance(error, Conflict):
        return Failure.CONFLICT
    if isinstance(error, TerminalError):
        return Failure.TERMINAL
    if isinstance(error, ReconcileTimeout):
        return Failure.TIMEOUT
    return Failure.MISTAKE if isinstance(error, _MISTAKES) else Failure.ERROR


def explains_itself(error: BaseException) -> bool:
    """Whether the message says all there is to say; otherwise the traceback helps."""
    return isinstance(error, (KubewrightError, OSError))


def traceback_of(error: BaseException, below: str) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """What `logging` takes as `exc_info`: the traceback, without the frames of the file `below` that it begins with."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == below:
        trace = trace.tb_next
    return type(error), error, trace


def unwrapped(error: Exception) -> Exception:
    """The first failure of a task group whose failures are all of one class; any other error is itself."""
    if not isinstance(error, ExceptionGroup):
        return error
    group = cast("ExceptionGroup[Exception]", error)
    first, *others = group.exceptions
    return unwrapped(first) if all(type(each) is type(first) for each in others) else group


def _is_about(error: NotFound, kind: type[Object], request: Request) -> bool:
    """Whether it is the object that is not there, or its namespace and so the object too."""
    api, details = kind.__api__, error.status.details
    if details is None:
        return False
    missing = (details.group, details.kind, details.name)
    return missing in ((api.group, api.plural, request.name), ("", "namespaces", request.namespace))
