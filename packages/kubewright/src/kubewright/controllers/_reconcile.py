"""The words between a controller and a reconciler: what to look at, and when to look again.

Follows controller-runtime's pkg/reconcile.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from kubewright.cache._entry import ObjectKey

Request: TypeAlias = ObjectKey
"""Name of an object to reconcile. Says nothing of the event that led to it: a reconcile depends on state alone."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a reconcile that went well asks for. Nothing more to do until something changes is `None`, or `Result()`."""

    requeue_after: timedelta | None = None
    """Look again after this time, even when nothing changes. An event before it is not held back by it."""
