"""Whether an object has converged, according to its own status.

The checks, in this order: is the object being deleted; has its operator reconciled it at all, and at its current
generation; do its conditions report a problem or work in progress. Conditions are those of kubebuilder's projects
(Available, Progressing, Degraded) and of kstatus (Ready, Reconciling, Stalled). An object whose type has neither
`status.observedGeneration` nor `status.conditions` counts as converged: it has no way to report a problem.

Follows sigs.k8s.io/cli-utils pkg/kstatus.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from datetime import datetime, timedelta
from typing import Annotated, Final

import msgspec

from kubewright.client._dynamic import Unstructured
from kubewright.machinery.json import JSONObject, is_array, is_object

_GOOD: Final = ("Ready", "Available", "Succeeded", "Complete", "Healthy", "Synced")
"""Conditions that must be true."""
_BAD: Final = ("Stalled", "Degraded", "Failed", "Reconciling")
"""Conditions that must not be true."""
_PATIENCE: Final = timedelta(minutes=1)
_Time = Annotated[datetime, msgspec.Meta(tz=True)]


def not_reconciled(obj: Unstructured, declared: Container[str]) -> str | None:
    """Return the evidence that the operator has never reconciled the object; None if there is none.

    `declared` are the fields that the type's status has.
    """
    status = _status(obj)
    if "observedGeneration" in declared:
        missing = "observedGeneration" if not isinstance(status.get("observedGeneration"), int) else ""
    else:
        missing = "conditions" if "conditions" in declared and not any(_conditions(status)) else ""
    return f"not reconciled yet: status.{missing} is not set" if missing else None


def reason_not_converged(obj: Unstructured) -> str | None:
    """Return what the object itself reports against being converged; None if it reports nothing."""
    meta = obj.metadata
    if meta.deletion_timestamp is not None:
        held = f", held by {', '.join(meta.finalizers)}" if meta.finalizers else ""
        return f"is being deleted{held}"
    status = _status(obj)
    observed = status.get("observedGeneration")
    if isinstance(observed, int) and observed < (meta.generation or 0):
        return f"generation {meta.generation} is not reconciled yet; the status is of generation {observed}"
    for condition in _conditions(status):
        kind, value = condition.get("type"), condition.get("status")
        stale = condition.get("observedGeneration")
        if isinstance(stale, int) and stale < (meta.generation or 0) and kind in (*_GOOD, *_BAD):
            return f"condition {kind} is of generation {stale}, the object has generation {meta.generation}"
        if (kind in _GOOD and value != "True") or (kind in _BAD and value == "True"):
            return _condition_text(condition)
    return None


def is_stuck(obj: Unstructured, now: datetime) -> bool:
    """Return whether finalizers have blocked the deletion of the object for over a minute, or its condition Ready has
    been False for so long.
    """
    meta = obj.metadata
    if meta.deletion_timestamp is not None:
        return bool(meta.finalizers) and now - meta.deletion_timestamp > _PATIENCE
    failing = [
        each for each in _conditions(_status(obj)) if each.get("type") == "Ready" and each.get("status") == "False"
    ]
    return any(since is not None and now - since > _PATIENCE for since in map(_transition, failing))


def _transition(condition: JSONObject) -> datetime | None:
    """Return the last transition time of a condition; None if it has no valid one."""
    try:
        return msgspec.convert(condition.get("lastTransitionTime"), _Time)
    except msgspec.ValidationError:
        return None


def _status(obj: Unstructured) -> JSONObject:
    status = obj.get("status")
    return status if is_object(status) else {}


def _conditions(status: JSONObject) -> Iterator[JSONObject]:
    found = status.get("conditions")
    yield from (each for each in (found if is_array(found) else []) if is_object(each))


def _condition_text(condition: JSONObject) -> str:
    reason, message = condition.get("reason") or "", condition.get("message") or ""
    details = ": ".join(each for each in (reason, message) if each)
    return f"{condition.get('type')} is {condition.get('status')}{details and f' ({details})'}"
