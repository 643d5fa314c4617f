"""Events, stored as `v1` and served as `v1` and `events.k8s.io/v1`.

The requirements for a new Event depend on the version it is sent in: `events.k8s.io/v1` requires the reporter and the
action. Follows k8s.io/kubernetes pkg/registry/core/event and pkg/apis/core/validation/events.go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from sys import intern
from typing import Final

from kubewright._runtime.clock import Clock, Timer
from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, invalid, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.generic import UpsertStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.events import Event

_RENAMED: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_SHOWN_EMPTY: Final = frozenset({"reportingComponent", "reportingInstance"})
"""Fields that `v1` shows even if empty, and `events.k8s.io/v1` does not."""
_NEW_TO_OLD: Final = {new: old for old, new in _RENAMED.items()}
_OBJECT_FIELDS: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_INVOLVED: Final = tuple((f"involvedObject.{field}", field) for field in _OBJECT_FIELDS)
_NEWER_API: Final = "events.k8s.io/v1"
_LIMITS: Final = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_OUTDATED: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
_FIXED: Final = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type", "eventTime",
    "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip
_EVENTS: Final = "events"

_EXPIRY_INTERVAL_SECONDS: Final = 60.0

_SHOWN: Final = {"reportingComponent": "reportingController"}


def to_core(event: JSONObject) -> JSONObject:
    """Convert an `events.k8s.io/v1` Event to `v1`."""
    return {_NEW_TO_OLD.get(key, key): value for key, value in event.items()} | {"apiVersion": "v1", "kind": "Event"}


def to_stored(event: JSONObject) -> JSONObject:
    """Convert an `events.k8s.io/v1` Event to the stored form, with the fields that `v1` always shows."""
    stored = to_core(event)
    EventStrategy().default(stored)
    return stored


def from_core(event: JSONObject) -> JSONObject:
    """Convert a `v1` Event to `events.k8s.io/v1`."""
    shown = {key: value for key, value in event.items() if value or key not in _SHOWN_EMPTY}
    newer = {_RENAMED.get(key, key): value for key, value in shown.items()}
    return newer | {"apiVersion": _NEWER_API, "kind": "Event"}


class EventStrategy(UpsertStrategy):
    """Events in `v1`."""

    selectable_fields = (
        *(f"involvedObject.{field}" for field in _OBJECT_FIELDS),
        "reason",
        "reportingComponent",
        "source",
        "type",
    )

    def default(self, obj: JSONObject) -> None:
        obj.setdefault("involvedObject", {})
        obj.setdefault("source", {})
        for field in ("firstTimestamp", "lastTimestamp", "eventTime"):
            obj.setdefault(field, None)
        for field in ("reportingComponent", "reportingInstance"):
            obj.setdefault(field, "")

    def validate(self, obj: JSONObject) -> list[FieldError]:
        return _common_errors(obj, "reportingComponent")

    def fields(self, obj: JSONObject) -> Mapping[str, str]:
        involved, source = obj.get("involvedObject") or {}, obj.get("source") or {}
        values = {name: involved.get(field) for name, field in _INVOLVED}
        values["reason"] = obj.get("reason")
        values["reportingComponent"] = obj.get("reportingComponent")
        values["source"] = source.get("component") or obj.get("reportingComponent")
        values["type"] = obj.get("type")
        # there are many Events: equal values share one string, and empty ones need none
        return {name: intern(value) for name, value in values.items() if value}


class EventsV1Strategy(UpsertStrategy):
    """Events in `events.k8s.io/v1`."""

    stored_field_names: Mapping[str, str] = {
        "reportingController": "reportingComponent",
        **{f"regarding.{field}": f"involvedObject.{field}" for field in _OBJECT_FIELDS},
    }
    selectable_fields = (*stored_field_names, "reason", "type")

    def __init__(self) -> None:
        self._core = EventStrategy()

    def default(self, obj: JSONObject) -> None:
        obj.setdefault("deprecatedFirstTimestamp", None)
        obj.setdefault("deprecatedLastTimestamp", None)

    def validate(self, obj: JSONObject) -> list[FieldError]:
        event = to_core(obj)
        errors = _common_errors(event, "reportingController")
        if obj["metadata"].get("resourceVersion"):
            return errors
        errors += _series_errors(event)
        if not event.get("eventTime"):
            errors.append(required("eventTime"))
        if event.get("type") not in ("Normal", "Warning"):
            errors.append(invalid("type", "", f"has invalid value: {event.get('type') or ''}"))
        return errors + [invalid(field, "", "needs to be unset") for field in _OUTDATED if event.get(field)]

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        new, before = to_core(obj), to_core(old)
        errors = [] if checks.same(new.get("series"), before.get("series")) else _series_errors(new)
        for field in _FIXED:
            errors += checks.immutable(_SHOWN.get(field, field), new.get(field), before.get(field))
        return errors

    def fields(self, obj: JSONObject) -> Mapping[str, str]:
        return self._core.fields(to_core(obj))


def _common_errors(event: JSONObject, reporting_field: str) -> list[FieldError]:
    """Return the errors that both versions check, for an Event in the form of `v1`."""
    about, own = (event.get("involvedObject") or {}).get("namespace") or "", event["metadata"].get("namespace") or ""
    mismatch = invalid("involvedObject.namespace", about, "does not match event.namespace")
    if not event.get("eventTime"):
        return [mismatch] if own != about and (about or own != "default") else []
    errors = [mismatch] if not about and own not in ("default", "kube-system") else []
    reporter = event.get("reportingComponent") or ""
    if not reporter:
        errors.append(required(reporting_field))
    errors += checks.named(reporting_field, reporter, names.qualified_name)
    for field in ("reportingInstance", "action", "reason"):
        if not event.get(field):
            errors.append(required(field))
    for field, limit in _LIMITS.items():
        if len(event.get(field) or "") > limit:
            errors.append(invalid(field, "", f"can have at most {limit} characters"))
    return errors


def _series_errors(event: JSONObject) -> list[FieldError]:
    series = event.get("series")
    if not series:
        return []
    errors: list[FieldError] = []
    if (series.get("count") or 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


class EventExpiry:
    """Removes Events some seconds after their last write. A restart of the server starts their time again."""

    def __init__(self, resources: ResourceSet, seconds: float, clock: Clock) -> None:
        self._resources = resources
        self._seconds = seconds
        self._clock = clock
        self._written: deque[tuple[float, str, int]] = deque()
        """Time, key and revision of each write. An entry with a later revision was written again since."""
        self._timer: Timer | None = None

    def start(self) -> None:
        self._resources.observe(_EVENTS, self._on_commit)
        self._remove_expired()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _on_commit(self, event: Event) -> None:
        if event.type != "DELETED":
            self._written.append((self._clock.monotonic(), event.entry.key, event.revision))

    def _remove_expired(self) -> None:
        registry = self._resources.registry(_EVENTS)
        oldest = self._clock.monotonic() - self._seconds
        while self._written and self._written[0][0] <= oldest:
            _, key, revision = self._written.popleft()
            entry = self._resources.store.get(_EVENTS, key)
            if entry is not None and entry.revision == revision:
                registry.remove(self._resources.decode(entry.data))
        self._timer = self._clock.call_later(_EXPIRY_INTERVAL_SECONDS, self._remove_expired)
