"""What was last applied to each object, so that saying the same again needs no request while it still holds."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from kubewright.cache._entry import Entry, ObjectKey
from kubewright.cache._ownership import would_change
from kubewright.machinery.json import JSONObject, equal, is_array, is_object, read_object

Applier: TypeAlias = tuple[str, str | None]
"""Field manager and subresource: each says its own part of an object."""


class _Applied(NamedTuple):
    digest: int
    uid: str
    version: int


class LastApplied:
    """The last configuration that this process applied to each object of a kind."""

    def __init__(self) -> None:
        self._applied: dict[ObjectKey, dict[Applier, _Applied]] = {}

    def remember(self, key: ObjectKey, applier: Applier, configuration: bytes, uid: str, version: int) -> None:
        """Applying `configuration` made the object what it is at `version`."""
        self._applied.setdefault(key, {})[applier] = _Applied(_digest(configuration), uid, version)

    def forget(self, key: ObjectKey) -> None:
        """The object is gone."""
        self._applied.pop(key, None)

    def holds(self, entry: Entry[Any], applier: Applier, configuration: bytes) -> bool:
        """Whether applying `configuration` would leave the object of `entry` as it is.

        So it is when it is the last that was applied and nobody has changed the object since. Beyond that the object's
        managedFields tell. Where the cache has none (`Scope.keep_managed_fields`), it holds as long as it is the last
        that was applied and all that it says is still there; what others added to an atomic map is not seen then.
        """
        last = self._applied.get(entry.key, {}).get(applier)
        digest = _digest(configuration)
        same = last is not None and last.uid == entry.uid and last.digest == digest
        if last is not None and same and last.version == entry.resource_version:
            return True
        live = read_object(entry.data)
        wanted = _counting(entry, applier[1], configuration)
        if "managedFields" not in live["metadata"]:
            return same and _says(live, wanted)
        if would_change(wanted, live, *applier):
            return False
        self.remember(entry.key, applier, configuration, entry.uid, entry.resource_version)
        return True


def _counting(entry: Entry[Any], subresource: str | None, configuration: bytes) -> JSONObject:
    """What of `configuration` the server looks at."""
    wanted = read_object(configuration)
    if subresource is None and "status" in entry.kind.__api__.subresources:
        wanted.pop("status", None)
    elif subresource == "status":
        wanted = {key: value for key, value in wanted.items() if key in ("apiVersion", "kind", "metadata", "status")}
    return wanted


def _digest(configuration: bytes) -> int:
    """64 bits, keyed for each process (SipHash): of two configurations, one in 10^19 is taken for the other."""
    return hash(configuration)


def _says(live: JSONObject, wanted: JSONObject) -> bool:
    # Items of a list come without apiVersion and kind.
    return _covers(live, {key: value for key, value in wanted.items() if key not in ("apiVersion", "kind")})


def _covers(live: object, wanted: object) -> bool:
    """Whether `live` has all that `wanted` says. Lists are compared place by place: one that was reordered does not."""
    if is_object(wanted):
        return is_object(live) and all(key in live and _covers(live[key], wanted[key]) for key in wanted)
    if is_array(wanted):
        return is_array(live) and len(live) == len(wanted) and all(map(_covers, live, wanted))
    return equal(live, wanted)
