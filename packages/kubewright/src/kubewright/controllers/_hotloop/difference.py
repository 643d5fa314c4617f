"""The difference between two versions of an object, and the owners of a field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias, cast

import msgspec

from kubewright.machinery.json import JSONObject, equal, is_array, is_object

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes from the root of a document to a field."""

_OF_THE_SERVER: Final = frozenset({"managedFields", "resourceVersion", "generation"})
"""Fields of metadata that change with every write."""

_ABSENT: Final = None


def difference(before: JSONObject, after: JSONObject) -> dict[Path, tuple[Any, Any]]:
    """Return each changed field with its value in `before` and in `after`; None for an absent field.

    Fields that change with every write are ignored. Lists of different lengths differ as a whole.
    """
    return {path: values for path, *values in _differences((), before, after)}  # type: ignore[misc]


def _differences(path: Path, before: Any, after: Any) -> Iterator[tuple[Path, Any, Any]]:
    if is_object(before) and is_object(after):
        skipped = _OF_THE_SERVER if path == ("metadata",) else ()
        for key in {**before, **after}:
            if key not in skipped:
                yield from _differences((*path, key), before.get(key, _ABSENT), after.get(key, _ABSENT))
    elif is_array(before) and is_array(after) and len(before) == len(after):
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences((*path, place), old, new)
    elif not equal(before, after):
        yield path, before, after


def shown(path: Path) -> str:
    """Return a path as text: `spec.template.spec.containers[0].image`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def managers_of(document: JSONObject, path: Path) -> list[str]:
    """Return the field managers that own the field at `path`, by the document's managedFields.

    Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
    """
    entries: list[JSONObject] = document.get("metadata", {}).get("managedFields") or []
    found = [entry.get("manager", "") for entry in entries if _owns(entry.get("fieldsV1") or {}, document, path)]
    return list(dict.fromkeys(filter(None, found)))


def _owns(owned: JSONObject, live: Any, path: Path) -> bool:
    for step in path:
        if isinstance(step, int):
            live = live[step] if is_array(live) and step < len(live) else None
            below = next((fields for name, fields in owned.items() if _names(name, live)), None)
        else:
            live = live.get(step) if is_object(live) else None
            below = owned.get(f"f:{step}")
        if below is None:
            return False
        if not below:  # a field that is owned as a whole, including its content
            return True
        owned = cast("JSONObject", below)
    return True


def _names(name: str, item: object) -> bool:
    """Return whether the key of a FieldsV1 tree names this item of a list."""
    if name.startswith("k:"):
        keys: JSONObject = msgspec.json.decode(name[2:])
        return is_object(item) and all(item.get(key) == value for key, value in keys.items())
    return name.startswith("v:") and equal(msgspec.json.decode(name[2:]), item)
