"""Cells that many kinds share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from kubewright.machinery.json import JSONObject, is_object
from kubewright.machinery.selectors import Selector
from kubewright_controlplane.apiserver.printers.ages import age

NONE: Final = "<none>"
UNSET: Final = "<unset>"
_SHOWN = 3


def at(obj: Any, *path: str) -> Any:
    """Return the value at a path; None if it does not exist."""
    for part in path:
        if not is_object(obj):
            return None
        obj = obj.get(part)
    return obj


def number(obj: JSONObject, *path: str) -> int:
    """Return the number at a path; 0 if there is none."""
    found: int = at(obj, *path) or 0
    return found


def replicas(obj: JSONObject) -> list[int]:
    """DESIRED, CURRENT and READY of a ReplicaSet or ReplicationController."""
    return [
        number(obj, "spec", "replicas"),
        number(obj, "status", "replicas"),
        number(obj, "status", "readyReplicas"),
    ]


def text(obj: JSONObject, *path: str, default: str = "") -> str:
    """Return the text at a path; `default` if there is none."""
    return str(at(obj, *path) or default)


def items(obj: JSONObject, *path: str) -> Sequence[JSONObject]:
    """Return the list of objects at a path; empty if there is none."""
    found: Sequence[JSONObject] = at(obj, *path) or ()
    return found


def name(obj: JSONObject) -> str:
    return text(obj, "metadata", "name")


def age_of(obj: JSONObject, now: datetime) -> str:
    """Return the age of an object."""
    return age(at(obj, "metadata", "creationTimestamp"), now)


def name_and_creation(obj: JSONObject, now: datetime) -> list[object]:
    """Return name and creation time, for kinds without columns of their own."""
    return [name(obj), text(obj, "metadata", "creationTimestamp")]


def name_and_age(obj: JSONObject, now: datetime) -> list[object]:
    return [name(obj), age_of(obj, now)]


def labels(value: dict[str, str] | None) -> str:
    """Return labels as `a=b,c=d`."""
    return ",".join(f"{key}={value[key]}" for key in sorted(value)) if value else NONE


def selector(value: JSONObject | None) -> str:
    """Return a LabelSelector as text."""
    return str(Selector.from_dict(value)) or NONE if value else NONE


def containers(obj: JSONObject, *path: str) -> list[object]:
    """Return names and images of the containers in the Pod spec at a path."""
    found = items(obj, *path, "containers")
    return [",".join(text(each, "name") for each in found), ",".join(text(each, "image") for each in found)]


def joined(values: Iterable[str]) -> str:
    """Return the first items of a list, and the number of the others."""
    listed = list(values)
    if not listed:
        return NONE
    head = ",".join(listed[:_SHOWN])
    return f"{head} + {len(listed) - _SHOWN} more..." if len(listed) > _SHOWN else head


def is_default_class(obj: JSONObject, annotation: str) -> bool:
    return bool(at(obj, "metadata", "annotations", annotation) == "true")


def condition(obj: JSONObject, type: str) -> JSONObject | None:
    """Return the status condition of a type."""
    return next((each for each in items(obj, "status", "conditions") if each.get("type") == type), None)


def is_true(obj: JSONObject, type: str) -> bool:
    """Return whether the status condition of a type is True."""
    found = condition(obj, type)
    return found is not None and found.get("status") == "True"
