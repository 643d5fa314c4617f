"""Pausing: an object whose annotation `kubewright.dev/paused` is `"true"` is left alone.

    kubectl annotate webserver/web kubewright.dev/paused=true
    kubectl annotate webserver/web kubewright.dev/paused-

While it is there the object is not reconciled, whatever asks for it, and its finalizer stays: an object that is
deleted while it is paused waits. When the annotation is taken off or set to anything else, the reconcile comes at once,
whatever the controller's predicate says. A reconcile that runs when the annotation comes is not interrupted.

Seen in one line of the log each time, and in the metric `kubewright_paused_objects`.
"""

from __future__ import annotations

from typing import Final

from kubewright.models import Object

PAUSED: Final = "kubewright.dev/paused"
"""The annotation."""


def is_paused(obj: Object) -> bool:
    """Whether `obj` asks to be left alone."""
    return obj.metadata.annotations.get(PAUSED) == "true"
