"""Whether a server-side apply would change anything, told from the live object and its managedFields alone.

It would not when the manager owns exactly the fields that are stated, and each of them has the value that is stated.
Ownership says more than values: a field that this manager stated once and states no longer must be sent, so that the
server removes it; a field that another one set to the same value must be sent, so that it becomes ours.

Errs on the side of sending: what can't be told for certain counts as a change. So it goes for a value that the server
stores in another spelling than the one stated (`1` for `1000m`), and for defaults inside lists that it treats as one
value.
"""

from __future__ import annotations

from typing import Final

from kubewright.client._fieldsv1 import SELF, Owned, entry_of, is_item, keys_of
from kubewright.machinery.json import JSONArray, JSONObject, equal, is_array, is_object

_IDENTITY: Final = frozenset({"name", "namespace"})
"""Of metadata: they say which object is meant, and nobody owns them."""


def would_change(desired: JSONObject, live: JSONObject, manager: str, subresource: str | None = None) -> bool:
    """Whether applying `desired` as `manager`, with force, would change `live` or what `manager` owns of it.

    `live` has its managedFields. `desired` has what the request counts for: no status, or with `subresource="status"`
    nothing else.
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
    """`keys` are the fields by which the item of a list is known: the server fills those in that have a default."""
    for name, value in stated.items():
        below = owned.get("f:" + name)
        if below is None or name not in live or not _holds(value, live[name], below):
            return False
    unstated = len(owned) - len(stated) - (SELF in owned)
    return unstated == 0 or unstated == sum(f"f:{key}" in owned and key not in stated for key in keys)


def _holds_items(stated: JSONArray, live: JSONArray, owned: Owned) -> bool:
    """Each item that is stated is there and ours, in the order stated, and no other is ours."""
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
