"""Types that a controller and its reconciler exchange, and how a reconcile is described and ends.

    Request         the name of an object to reconcile
    Result          the follow-up that a successful reconcile requests
    Attempt         one reconcile: its request, its number, and the events that caused it
    EventRecorder   records Kubernetes Events for the users of an object
    Failure         the meaning of an exception
    Outcome         how a reconcile ended; observers count outcomes

Follows controller-runtime's pkg/reconcile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextvars import ContextVar
from enum import Enum, StrEnum, auto
from traceback import walk_tb
from types import TracebackType
from typing import Final, Literal, TypeAlias, cast

import msgspec

from kubewright.cache._entry import EventType, ObjectKey
from kubewright.machinery.errors import (
    APIError,
    ConfigError,
    Conflict,
    DeadlineExceeded,
    Forbidden,
    KubewrightError,
    NotFound,
    TerminalError,
)
from kubewright.machinery.time import Seconds, seconds
from kubewright.models import Object

Request: TypeAlias = ObjectKey
"""The namespace and name of an object to reconcile. It carries no event: a reconcile depends on the state only."""


class Result(msgspec.Struct, frozen=True):
    """The follow-up that a successful reconcile requests. `None` and `Result()` mean: wait for the next change."""

    requeue_after: Seconds | None = None
    """Reconcile again after this time, even if nothing changes. An event leads to an earlier reconcile."""

    def __post_init__(self) -> None:
        if self.requeue_after is not None and seconds(self.requeue_after, "Result: requeue_after") < 0:
            raise ConfigError(f"Result: requeue_after must not be negative, got {seconds(self.requeue_after):g} s")


Cause: TypeAlias = tuple[str, str, ObjectKey, int]
"""An event that caused a reconcile: kind, event type, key and resource version of the object; 0 for a delete."""

MAX_CAUSES: Final = 16
"""The maximum number of causes to keep for one reconcile, which may have thousands."""

_SHOWN_CAUSES: Final = 4


class Attempt:
    """One reconcile of one request. A retry is another attempt."""

    __slots__ = (
        "allows_deletes", "causes", "finalizing", "is_gone", "number", "object", "observer", "progressed", "request",
        "succeeded", "written",
    )  # fmt: skip

    def __init__(self, request: Request, number: int, causes: Sequence[Cause]) -> None:
        self.request = request
        self.number = number
        """1 for the first attempt, plus one for each failure in a row before it."""
        self.causes = causes
        """The events that caused it. Empty if a retry, a requeue or a `Source` requested it."""
        self.object: Object | None = None
        """The object as it was when the attempt began; None before it is read, and if it does not exist."""
        self.progressed = False
        """Whether it created or deleted an object, or wrote one that it had not written recently."""
        self.allows_deletes = False
        """Whether the object's annotation allows any number of deletes."""
        self.is_gone = False
        """Whether the object no longer exists."""
        self.written: set[tuple[type[Object], ObjectKey, int]] | None = None
        """The versions that it wrote, if the answers had exactly what was sent. None if nobody asks for them."""
        self.succeeded = False
        """Whether it ended without an error."""
        self.finalizing = False
        """Whether the finalizer's function runs instead of the reconciler."""
        self.observer: ControllerObserver | None = None
        """Counts what the reconcile does."""

    @property
    def shown_causes(self) -> str | None:
        """The first causes, for logs: `Deployment default/web update, WebServer default/web add`."""
        shown = ", ".join(f"{kind} {key} {event}" for kind, event, key, _ in self.causes[:_SHOWN_CAUSES])
        return shown or None


CURRENT: Final[ContextVar[Attempt | None]] = ContextVar("kubewright_attempt", default=None)
"""The attempt that runs in this task, or in the task that started it."""


class EventRecord(msgspec.Struct, frozen=True):
    """One Kubernetes Event, as a reconciler records it."""

    type: Literal["Normal", "Warning"]
    regarding: Object
    """The object that the Event is about."""
    reason: str
    """A word in CamelCase, for programs."""
    note: str
    """A sentence, for people."""
    action: str = "Reconcile"
    """The action of the controller."""
    related: Object | None = None
    """A second object that is involved."""


class EventRecorder(ABC):
    """Records Kubernetes Events, which `kubectl describe` shows. A subclass implements `record`.

    Recording never waits and never fails: an Event that cannot be written is logged and dropped.
    """

    @abstractmethod
    def record(self, event: EventRecord, /) -> None:
        """Record an Event."""

    def normal(
        self, regarding: Object, reason: str, note: str, *, action: str = "Reconcile", related: Object | None = None
    ) -> None:
        """Record that something happened as intended. `reason` is a CamelCase word, `note` is a sentence."""
        self.record(EventRecord("Normal", regarding, reason, note, action, related))

    def warning(
        self, regarding: Object, reason: str, note: str, *, action: str = "Reconcile", related: Object | None = None
    ) -> None:
        """Record a problem that the users of `regarding` should know about."""
        self.record(EventRecord("Warning", regarding, reason, note, action, related))


ALREADY_OWNED: Final = "AlreadyOwned"
"""The reason of the warning Event of an object whose child has another controller."""
RECONCILE_FAILED: Final = "ReconcileFailed"
"""The reason of the warning Event of an object whose reconciles keep failing."""
RECONCILE_SUCCEEDED: Final = "ReconcileSucceeded"
"""The reason of the Event that follows when the object is reconciled again."""


class NoEvents(EventRecorder):
    """The recorder of a program that writes no Events."""

    def record(self, event: EventRecord, /) -> None:
        """Drop the Event."""


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


_ESCALATION: Final = "permissions not currently held"
"""In the message of the API server about a role with more permissions than its author has."""
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


def error_text(error: BaseException) -> str:
    """Return the class and the message of an error, for a log line: without the list of rules after an attempt to
    grant permissions, which may have hundreds.
    """
    text = f"{type(error).__name__}: {error}"
    if not _is_escalation(error):
        return text
    head, _, rules = text.partition(_ESCALATION)
    listed = [each for each in rules.lstrip(":").splitlines() if each.strip()]
    return f"{head}{_ESCALATION}: {len(listed)} rule{'s' if len(listed) != 1 else ''}"


def advice_about(error: BaseException) -> str | None:
    """Return what to do about an error that its message does not explain."""
    if not _is_escalation(error):
        return None
    return (
        'Declare the role that the controller binds: rules=[PolicyRule(api_groups=["rbac.authorization.k8s.io"], '
        'resources=["clusterroles"], resource_names=[...], verbs=["bind"])], or "roles" for a Role'
    )


def _is_escalation(error: BaseException) -> bool:
    return isinstance(error, Forbidden) and _ESCALATION in str(error)


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

    def plan_ended(self, plan: str, result: str, seconds: float) -> None:
        """Called when an execution of a plan ended, `seconds` after it began."""

    def step_failed(self, plan: str) -> None:
        """Called when an attempt of a step of a plan failed."""

    def drift_repaired(self, objects: int) -> None:
        """Called when that many objects were restored to what a plan describes."""
