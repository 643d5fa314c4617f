"""Whether an object is what it is meant to be, by its own word.

Asked in this order: is it being deleted; has its operator seen its present generation; do its conditions say that
something is wrong, or under way. Conditions are those of kubebuilder's projects (Available, Progressing, Degraded) and
of kstatus (Ready, Reconciling, Stalled); an object that says nothing is taken to be well.

Follows sigs.k8s.io/cli-utils pkg/kstatus.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubewright.client._dynamic import Unstructured
from kubewright.machinery.json import JSONObject, is_array, is_object

_GOOD: Final = ("Ready", "Available", "Succeeded", "Complete", "Healthy", "Synced")
"""Conditions that are to be true."""
_BAD: Final = ("Stalled", "Degraded", "Failed", "Reconciling")
"""Conditions that are not to be."""


def hindrance(obj: Unstructured) -> str | None:
    """Why the object is not what it is meant to be; None when it is."""
    meta = obj.metadata
    if meta.deletion_timestamp is not None:
        held = f", held by {', '.join(meta.finalizers)}" if meta.finalizers else ""
        return f"is being deleted{held}"
    status = obj.get("status")
    status = status if is_object(status) else {}
    observed = status.get("observedGeneration")
    if isinstance(observed, int) and observed < (meta.generation or 0):
        return f"generation {meta.generation} has not been looked at yet; the status is of generation {observed}"
    for condition in _conditions(status):
        kind, value = condition.get("type"), condition.get("status")
        stale = condition.get("observedGeneration")
        if isinstance(stale, int) and stale < (meta.generation or 0) and kind in (*_GOOD, *_BAD):
            return f"condition {kind} is of generation {stale}, the object has generation {meta.generation}"
        if (kind in _GOOD and value != "True") or (kind in _BAD and value == "True"):
            return _said(condition)
    return None


def _conditions(status: JSONObject) -> Iterator[JSONObject]:
    found = status.get("conditions")
    yield from (each for each in (found if is_array(found) else []) if is_object(each))


def _said(condition: JSONObject) -> str:
    reason, message = condition.get("reason") or "", condition.get("message") or ""
    said = ": ".join(each for each in (reason, message) if each)
    return f"{condition.get('type')} is {condition.get('status')}{said and f' ({said})'}"
