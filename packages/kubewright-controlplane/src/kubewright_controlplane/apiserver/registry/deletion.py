"""The effect of a delete on an object: mark it, keep it for its finalizers and grace period, or remove it.

Follows apiserver's registry/rest/delete.go and the garbage collection finalizers of generic/registry/store.go.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum, auto

from kubewright.machinery import time
from kubewright.machinery.errors import Conflict, StatusDetails
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry.model import Resource
from kubewright_controlplane.apiserver.registry.options import DeleteOptions

_BY_PROPAGATION = {"Orphan": ["orphan"], "Foreground": ["foregroundDeletion"], "Background": list[str]()}
_COLLECTOR = frozenset({"orphan", "foregroundDeletion"})


class DeletionEffect(Enum):
    """The effect of a delete on an object."""

    REMOVED = auto()
    CHANGED = auto()
    UNCHANGED = auto()


def is_kept(resource: Resource, obj: JSONObject) -> bool:
    """Return whether finalizers, grace period or the kind itself keep an object that is being deleted."""
    metadata = obj["metadata"]
    return bool(
        metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds") or resource.strategy.keeps_deleted(obj)
    )


def check_preconditions(resource: Resource, metadata: JSONObject, options: DeleteOptions) -> None:
    """Raise Conflict if uid or resourceVersion in the preconditions differ from those of the object."""
    if options.uid is not None and options.uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({metadata['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise _conflict(resource, metadata["name"], why)
    version = metadata["resourceVersion"]
    if options.resource_version is not None and options.resource_version != version:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({version}). The object might have been modified"
        )
        raise _conflict(resource, metadata["name"], why)


def _conflict(resource: Resource, name: str, why: str) -> Conflict:
    text = f'Operation cannot be fulfilled on {resource.gvk.qualified_kind} "{name}": {why}'
    return Conflict(text, details=StatusDetails(name=name, group=resource.group, kind=resource.kind))


def _go_duration(seconds: int) -> timedelta:
    """Return seconds as Go computes with them: as nanoseconds in 64 bits, which wrap around after 292 years."""
    nanoseconds = (seconds * 10**9 + 2**63) % 2**64 - 2**63
    return timedelta(microseconds=nanoseconds // 1000)


class Deletion:
    """One delete of one object, `obj`, which is changed in place."""

    def __init__(self, resource: Resource, obj: JSONObject, options: DeleteOptions, now: datetime) -> None:
        self._resource = resource
        self._obj = obj
        self._metadata: JSONObject = obj["metadata"]
        self._options = options
        self._now = now

    def mark(self) -> DeletionEffect:
        """Mark the object as the delete requests, if anything keeps it. Returns the effect of the delete."""
        refinalized = self._set_collector_finalizers()
        grace = max(self._resource.strategy.grace_seconds(self._obj, self._options.grace_seconds), 0)
        if "deletionTimestamp" in self._metadata:
            shortened = self._shorten(grace)
            if not is_kept(self._resource, self._obj):
                return DeletionEffect.REMOVED
            return DeletionEffect.CHANGED if shortened or refinalized else DeletionEffect.UNCHANGED
        gone = not grace and not is_kept(self._resource, self._obj)
        if not gone or self._resource.strategy.default_grace_seconds is not None:
            self._begin(grace)
        return DeletionEffect.REMOVED if gone else DeletionEffect.CHANGED

    def _begin(self, grace: int) -> None:
        metadata = self._metadata
        metadata["deletionTimestamp"] = time.format(self._now + _go_duration(grace))
        if not self._resource.strategy.records_grace:
            return
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1

    def _shorten(self, grace: int) -> bool:
        """Shorten the grace period of an object that is already being deleted. It cannot be extended."""
        metadata = self._metadata
        current: int = metadata.get("deletionGracePeriodSeconds") or 0
        if grace >= current:
            return False
        due = time.parse(metadata["deletionTimestamp"]) - _go_duration(current) + _go_duration(grace)
        metadata["deletionTimestamp"] = time.format(max(due, self._now))
        metadata["deletionGracePeriodSeconds"] = grace
        return True

    def _set_collector_finalizers(self) -> bool:
        """Set the garbage collector's finalizers for the requested propagation. Without one, they do not change."""
        wanted = _BY_PROPAGATION.get(self._options.propagation)
        if wanted is None:
            return False
        before: list[str] = self._metadata.get("finalizers") or []
        after = [each for each in before if each not in _COLLECTOR] + wanted
        if after:
            self._metadata["finalizers"] = after
        else:
            self._metadata.pop("finalizers", None)
        return set(before) != set(after)
