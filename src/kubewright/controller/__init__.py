"""Turns events into reconciles: work queue, sources, predicates, handlers, controller."""

from kubewright.controller.context import Context
from kubewright.controller.controller import Controller, Reconciler, Watch, controller
from kubewright.controller.queue import Backoff, QueueClosed, WorkQueue
from kubewright.controller.reconcile import Request, Result
from kubewright.controller.sources import Channel

__all__ = [
    "Backoff",
    "Channel",
    "Context",
    "Controller",
    "QueueClosed",
    "Reconciler",
    "Request",
    "Result",
    "Watch",
    "WorkQueue",
    "controller",
]
