"""Controllers: from events to reconciles.

controller          declares a controller; Watch, Retry, Backoff, RateLimit, Finalizer and DeleteFuse configure it
Context, Result     what a reconcile function receives and returns; StructuredLogger is its `ctx.log`
Outcome             how a reconcile ended, for counts
WorkQueue           the queue of requests, for controllers without a Manager
predicates          which events lead to a reconcile
sources             requests from outside Kubernetes
run_blocking        runs blocking code in a thread
"""

from kubewright._runtime.log import StructuredLogger
from kubewright.controllers._blocking import run_blocking
from kubewright.controllers._context import (
    BaseContext,
    Context,
    DeletedContext,
    is_controlled_by,
    set_controller_reference,
)
from kubewright.controllers._controller import (
    Controller,
    IndexValues,
    MapFunction,
    ReconcileDeletedFunction,
    ReconcileFunction,
    Reconciler,
    Watch,
    controller,
)
from kubewright.controllers._finalizer import Finalizer
from kubewright.controllers._fuse import DeleteFuse
from kubewright.controllers._queue import QueueClosed, WorkItem, WorkQueue
from kubewright.controllers._reconcile import EventRecord, EventRecorder, Outcome, Request, Result
from kubewright.controllers._retry import Backoff, RateLimit, Retry

__all__ = [
    "Backoff",
    "BaseContext",
    "Context",
    "Controller",
    "DeleteFuse",
    "DeletedContext",
    "EventRecord",
    "EventRecorder",
    "Finalizer",
    "IndexValues",
    "MapFunction",
    "Outcome",
    "QueueClosed",
    "RateLimit",
    "ReconcileDeletedFunction",
    "ReconcileFunction",
    "Reconciler",
    "Request",
    "Result",
    "Retry",
    "StructuredLogger",
    "Watch",
    "WorkItem",
    "WorkQueue",
    "controller",
    "is_controlled_by",
    "run_blocking",
    "set_controller_reference",
]
