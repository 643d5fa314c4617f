"""Turns events into reconciles: work queue, sources, predicates, handlers, controller."""

from kubewright.controllers._context import Context
from kubewright.controllers._controller import Controller, ReconcileFunction, Reconciler, Watch, controller
from kubewright.controllers._events import EventRecorder
from kubewright.controllers._fuse import DeleteFuse
from kubewright.controllers._handlers import MapFunction
from kubewright.controllers._owner_references import is_controlled_by, set_controller_reference
from kubewright.controllers._queue import Backoff, QueueClosed, WorkQueue
from kubewright.controllers._ratelimit import RateLimit
from kubewright.controllers._reconcile import Request, Result
from kubewright.controllers.sources import Channel, Every, Polling, Source

__all__ = [
    "Backoff",
    "Channel",
    "Context",
    "Controller",
    "DeleteFuse",
    "EventRecorder",
    "Every",
    "MapFunction",
    "Polling",
    "QueueClosed",
    "RateLimit",
    "ReconcileFunction",
    "Reconciler",
    "Request",
    "Result",
    "Source",
    "Watch",
    "WorkQueue",
    "controller",
    "is_controlled_by",
    "set_controller_reference",
]
