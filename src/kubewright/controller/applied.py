"""Whether a server-side apply would change anything, told from the live object alone.

It would not when the manager owns exactly the fields that are stated, and each of them has the value that is stated.
Ownership says more than values: a field that this manager stated once and states no longer must be sent, so that the
server removes it; a field that another one set to the same value must be sent, so that it becomes ours.

Errs on the side of sending: what can't be told for certain counts as a change.

Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/ and
sigs.k8s.io/structured-merge-diff (FieldsV1: `f:` a field, `k:` an item by its keys, `v:` an item of a set).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from kubewright.machinery.json import JSONObject

_IDENTITY: Final = ("name", "namespace")
"""Of metadata: they say which object is meant, and nobody owns them."""

_Owned: TypeAlias = dict[str, Any]
"""A FieldsV1 tree; a field without fields below it is an empty one."""


def would_change(desired: JSONObject, live: JSONObject, manager: str) -> bool:
    """Whether applying `desired` as `manager`, with force, would change `live` or what `manager` owns of it.

    `live` has its managedFields. `desired` has no status where status is a subresource: the server ignores it.
    """
    owned = _owned_by(manager, desired.get("apiVersion"), live)
    if owned is None:
        return True
    stated = {key: value for key, value in desired.items() if key not in ("apiVersion", "kind")}
    metadata = {key: value for key, value in stated.pop("metadata", {}).items() if key not in _IDENTITY}
    if metadata:
        stated["metadata"] = metadata
    return not _holds_fields(stated, live, owned, frozenset())


def _owned_by(manager: str, api_version: str | None, live: JSONObject) -> _Owned | None:
    for entry in live.get("metadata", {}).get("managedFields", ()):
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"):
            return entry.get("fieldsV1") if entry.get("apiVersion") == api_version else None
    return None


def _holds(stated: Any, live: Any, owned: _Owned) -> bool:
    if not owned:
        return bool(stated == live)
    if isinstance(stated, dict):
        return isinstance(live, dict) and _holds_fields(stated, live, owned, frozenset())
    if isinstance(stated, list):
        return isinstance(live, list) and _holds_items(stated, live, owned)
    return False


def _holds_fields(stated: JSONObject, live: JSONObject, owned: _Owned, keys: frozenset[str]) -> bool:
    """`keys` are the fields by which the item of a list is known: the server fills those in that have a default."""
    found = 0
    for name, value in stated.items():
        below = owned.get("f:" + name)
        if below is None or name not in live or not _holds(value, live[name], below):
            return False
        found += 1
    unstated = len(owned) - found - ("." in owned)
    return unstated == 0 or unstated == sum(f"f:{key}" in owned and key not in stated for key in keys)


def _holds_items(stated: list[Any], live: list[Any], owned: _Owned) -> bool:
    """Each item that is stated is there and ours, in the order stated, and no other is ours."""
    if len(stated) != len(owned) - ("." in owned):
        return False
    position = -1
    unmatched = {path: _parsed(path) for path in owned if path != "."}
    for item in stated:
        path = next((path for path, known in unmatched.items() if _is_item(item, path, known)), None)
        if path is None:
            return False
        known = unmatched.pop(path)
        at = next((index for index, each in enumerate(live) if _is_item(each, path, known)), -1)
        if at <= position:
            return False
        position = at
        below = owned[path]
        if not below:
            if item != live[at]:
                return False
        elif not _holds_fields(item, live[at], below, frozenset(known)):
            return False
    return True


def _is_item(item: Any, path: str, known: Any) -> bool:
    """Whether `item` is the one that `path` names. A key that the item leaves out is one that has a default."""
    if path.startswith("v:"):
        return bool(item == known)
    return isinstance(item, dict) and all(key not in item or item[key] == value for key, value in known.items())


@lru_cache(maxsize=4096)
def _parsed(path: str) -> Any:
    """What is behind `k:` or `v:`. The paths of a kind are few and recur."""
    return msgspec.json.decode(path[2:])
