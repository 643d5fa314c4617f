"""FieldsV1: which fields a manager owns, as an object's managedFields hold it.

A tree whose keys are elements of a path: `f:spec` a field, `k:{"name":"web"}` an item of a list by its keys, `v:"x"` an
item of a set, `.` the place itself. What has nothing below it is owned as a whole.

Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/ and sigs.k8s.io/structured-merge-diff
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from kubewright.machinery.json import JSONObject, equal, is_array, is_object

Owned: TypeAlias = dict[str, Any]
"""A tree of FieldsV1."""

SELF: Final = "."
"""The key for the place itself."""


def entry_of(document: JSONObject, manager: str, subresource: str | None) -> JSONObject | None:
    """Return the entry of `document`'s managedFields for what `manager` has applied; None when it has applied nothing."""
    for entry in document.get("metadata", {}).get("managedFields", ()):
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and entry.get("subresource", "") == (subresource or "")
        ):
            found: JSONObject = entry
            return found
    return None


def is_item(item: object, path: str, known: Any) -> bool:
    """Return whether an item of a list is the one that `path` names, `known` being its `keys_of`. A key that the item
    leaves out is one that has a default.
    """
    if path.startswith("v:"):
        return equal(item, known)
    return is_object(item) and all(key not in item or item[key] == value for key, value in known.items())


@lru_cache(maxsize=4096)
def keys_of(path: str) -> Any:
    """By what `path` names an item: the keys of `k:`, the value of `v:`. The paths of a kind are few and recur."""
    return msgspec.json.decode(path[2:])


def owned_part(value: Any, owned: Owned) -> Any:
    """Return what of `value` is owned; with an item of a list come the keys that it is known by."""
    below = {path: each for path, each in owned.items() if path != SELF}
    if not below:
        return value
    if is_object(value):
        names = {path.removeprefix("f:"): each for path, each in below.items()}
        return {name: owned_part(each, names[name]) for name, each in value.items() if name in names}
    if is_array(value):
        named = ((item, path) for item in value for path in below if is_item(item, path, keys_of(path)))
        return [_with_keys(owned_part(item, below[path]), path) for item, path in named]
    return value


def _with_keys(item: Any, path: str) -> Any:
    return {**keys_of(path), **item} if path.startswith("k:") else item
