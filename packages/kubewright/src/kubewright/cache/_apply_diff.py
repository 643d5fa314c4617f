"""Whether a server-side apply would change anything, decided from the cached object alone.

An apply changes nothing if the manager owns exactly the applied fields and each has the applied value. Equal values are
not enough. If this manager no longer applies a field, the apply must be sent, so that the server removes the field. If
another manager set a field to the same value, the apply must be sent, so that this manager owns the field, too.

If in doubt, the apply is sent. This is the case for a value that the server stores in another form (`1` for `1000m`),
and for defaults inside lists that the server treats as one value.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from kubewright.cache._entry import Entry, ObjectKey
from kubewright.client._managed_fields import SELF, Owned, entry_of, is_item, keys_of
from kubewright.machinery.json import JSONArray, JSONObject, equal, is_array, is_object, read_object

Applier: TypeAlias = tuple[str, str | None]
"""Field manager and subresource. Each applies its own fields of an object."""


_IDENTITY: Final = frozenset({"name", "namespace"})
"""Fields of metadata that identify the object. No manager owns them."""


class _Applied(msgspec.Struct, frozen=True):
    digest: int
    uid: str
    version: int


class LastApplied:
    """The last configuration that this process applied to each object of a kind."""

    def __init__(self) -> None:
        self._applied: dict[ObjectKey, dict[Applier, _Applied]] = {}

    def remember(self, key: ObjectKey, applier: Applier, configuration: bytes, uid: str, version: int) -> None:
        """Note that applying `configuration` resulted in the object at `version`."""
        self._applied.setdefault(key, {})[applier] = _Applied(_digest(configuration), uid, version)

    def forget(self, key: ObjectKey) -> None:
        """Forget an object that was deleted."""
        self._applied.pop(key, None)

    def holds(self, entry: Entry[Any], applier: Applier, configuration: bytes) -> bool:
        """Return whether applying `configuration` would leave the object of `entry` as it is.

        True if it was applied last and the object has not changed since. Otherwise the object's managedFields decide.
        If the cache does not keep them (`Scope.keep_managed_fields`), it must have been applied last, and the object
        must still contain all that it states; what others added to an atomic map is not noticed then.
        """
        last = self._applied.get(entry.key, {}).get(applier)
        digest = _digest(configuration)
        same = last is not None and last.uid == entry.uid and last.digest == digest
        if last is not None and same and last.version == entry.resource_version:
            return True
        live = read_object(entry.data)
        wanted = _counting(entry, applier[1], configuration)
        if "managedFields" not in live["metadata"]:
            return same and _has_values(live, wanted)
        if would_change(wanted, live, *applier):
            return False
        self.remember(entry.key, applier, configuration, entry.uid, entry.resource_version)
        return True


def _counting(entry: Entry[Any], subresource: str | None, configuration: bytes) -> JSONObject:
    """Return the part of `configuration` that the server uses."""
    wanted = read_object(configuration)
    if subresource is None and "status" in entry.kind.__api__.subresources:
        wanted.pop("status", None)
    elif subresource == "status":
        wanted = {key: value for key, value in wanted.items() if key in ("apiVersion", "kind", "metadata", "status")}
    return wanted


def _digest(configuration: bytes) -> int:
    """64 bits, keyed for each process (SipHash). Two configurations have the same digest once in 10^19 cases."""
    return hash(configuration)


def _has_values(live: JSONObject, wanted: JSONObject) -> bool:
    # List items have no apiVersion and kind.
    return _covers(live, {key: value for key, value in wanted.items() if key not in ("apiVersion", "kind")})


def _covers(live: object, wanted: object) -> bool:
    """Return whether `live` contains all values of `wanted`. Lists are compared by position."""
    if is_object(wanted):
        return is_object(live) and all(key in live and _covers(live[key], wanted[key]) for key in wanted)
    if is_array(wanted):
        return is_array(live) and len(live) == len(wanted) and all(map(_covers, live, wanted))
    return equal(live, wanted)


def would_change(desired: JSONObject, live: JSONObject, manager: str, subresource: str | None = None) -> bool:
    """Return whether applying `desired` as `manager`, with force, would change `live` or its ownership.

    `live` has its managedFields. `desired` has the part that the request is for: everything but the status, or with
    `subresource="status"` the status alone.
    """
    entry = entry_of(live, manager, subresource)
    if entry is None or "fieldsV1" not in entry or entry.get("apiVersion") != desired.get("apiVersion"):
        return True
    owned: Owned = entry["fieldsV1"]
    stated = {key: value for key, value in desired.items() if key not in ("apiVersion", "kind", "metadata")}
    metadata = {key: value for key, value in desired.get("metadata", {}).items() if key not in _IDENTITY}
    if metadata:
        stated["metadata"] = metadata
    return not _holds_fields(stated, live, owned, frozenset())


def _holds(stated: object, live: object, owned: Owned) -> bool:
    if not owned:
        return equal(stated, live)
    if is_object(stated):
        return is_object(live) and _holds_fields(stated, live, owned, frozenset())
    return is_array(stated) and is_array(live) and _holds_items(stated, live, owned)


def _holds_fields(stated: JSONObject, live: JSONObject, owned: Owned, keys: frozenset[str]) -> bool:
    """Compare a value. `keys` are the fields that identify a list item; the server sets those with a default."""
    for name, value in stated.items():
        below = owned.get("f:" + name)
        if below is None or name not in live or not _holds(value, live[name], below):
            return False
    unstated = len(owned) - len(stated) - (SELF in owned)
    return unstated == 0 or unstated == sum(f"f:{key}" in owned and key not in stated for key in keys)


def _holds_items(stated: JSONArray, live: JSONArray, owned: Owned) -> bool:
    """Return whether the owned items are exactly the applied items, in their order."""
    unmatched = {path: keys_of(path) for path in owned if path != SELF}
    if len(stated) != len(unmatched):
        return False
    last = -1
    for item in stated:
        path = next((path for path, known in unmatched.items() if is_item(item, path, known)), None)
        if path is None:
            return False
        known, below = unmatched.pop(path), owned[path]
        place = next((index for index, each in enumerate(live) if is_item(each, path, known)), -1)
        if place <= last:
            return False
        last = place
        if below:
            if not _holds_fields(item, live[place], below, frozenset(known)):
                return False
        elif not equal(item, live[place]):
            return False
    return True
