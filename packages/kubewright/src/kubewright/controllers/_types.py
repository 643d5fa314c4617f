"""Types that a controller and its reconciler exchange, and the description of a running reconcile.

    Request         the name of an object to reconcile
    Result          the follow-up that a successful reconcile requests
    Attempt         one reconcile: its request, its number, and the events that caused it
    EventRecorder   records Kubernetes Events for the users of an object

Follows controller-runtime's pkg/reconcile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from kubewright.cache._entry import ObjectKey
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.time import Seconds, seconds
from kubewright.models import Object

Request: TypeAlias = ObjectKey
"""The namespace and name of an object to reconcile. It carries no event: a reconcile depends on the state only.

The namespace of a cluster-scoped object is None; `Request("", name)` equals `Request(None, name)`.
"""


@dataclass(frozen=True, slots=True)
class Result:
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

    __slots__ = ("allows_deletes", "causes", "finalizing", "is_gone", "number", "progressed", "request")

    def __init__(self, request: Request, number: int, causes: Sequence[Cause]) -> None:
        self.request = request
        self.number = number
        """1 for the first attempt, plus one for each failure in a row before it."""
        self.causes = causes
        """The events that caused it. Empty if a retry, a requeue or a `Source` requested it."""
        self.progressed = False
        """Whether it created or deleted an object, or wrote one that it had not written recently."""
        self.allows_deletes = False
        """Whether the object's annotation allows any number of deletes."""
        self.is_gone = False
        """Whether the object no longer exists."""
        self.finalizing = False
        """Whether the finalizer's function runs instead of the reconciler."""

    @property
    def shown_causes(self) -> str | None:
        """The first causes, for logs: `Deployment default/web update, WebServer default/web add`."""
        shown = ", ".join(f"{kind} {key} {event}" for kind, event, key, _ in self.causes[:_SHOWN_CAUSES])
        return shown or None


CURRENT: Final[ContextVar[Attempt | None]] = ContextVar("kubewright_attempt", default=None)
"""The attempt that runs in this task, or in the task that started it."""


@dataclass(frozen=True, slots=True)
class EventRecord:
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


class NoEvents(EventRecorder):
    """The recorder of a program that writes no Events."""

    def record(self, event: EventRecord, /) -> None:
        """Drop the Event."""
