"""Turns events into reconciles: work queue, sources, predicates, handlers, controller."""

import sys
from types import ModuleType

from kubewright.controller.context import Context
from kubewright.controller.controller import Controller, ReconcileFunction, Reconciler, Watch, controller
from kubewright.controller.events import EventRecorder
from kubewright.controller.fuse import DeleteFuse
from kubewright.controller.handlers import MapFunction
from kubewright.controller.ownership import is_controlled_by, set_controller_reference
from kubewright.controller.queue import Backoff, QueueClosed, WorkQueue
from kubewright.controller.ratelimit import RateLimit
from kubewright.controller.reconcile import Request, Result
from kubewright.controller.sources import Channel, Every, Polling, Source

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


class _Package(ModuleType):
    """Makes `from kubewright import controller` good for the decorator, also when this package is loaded already."""

    __call__ = staticmethod(controller)


sys.modules[__name__].__class__ = _Package
