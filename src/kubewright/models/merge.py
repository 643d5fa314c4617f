"""Changing a document as a typed view of it was changed, and keeping what the type does not know.

A list's items are paired by what they are: first those that are equal, then those with the same `name`, `key`,
`type`, ... where they have one, and else those at the same place in a list that kept its length. An item without a
partner is new.
"""

from __future__ import annotations

from typing import Any, Final

from kubewright.machinery.json import JSONObject, equal, is_array, is_object

_IDENTITIES: Final = ("name", "key", "type", "uid", "mountPath", "containerPort", "port", "ip", "topologyKey")


def changed(document: JSONObject, before: JSONObject, after: JSONObject) -> JSONObject:
    """`document`, whose typed view was `before` and is `after` now, with that change made. Changes no input."""
    out = {key: value for key, value in document.items() if key in after or key not in before}
    for key, value in after.items():
        if key not in before:
            out[key] = value
        elif not equal(value, before[key]):
            out[key] = _changed_value(document.get(key), before[key], value)
    return out


def _changed_value(document: Any, before: Any, after: Any) -> Any:
    if is_object(document) and is_object(before) and is_object(after):
        return changed(document, before, after)
    if is_array(document) and is_array(before) and is_array(after) and len(document) == len(before):
        return _changed_list(document, before, after)
    return after


def _changed_list(document: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    partners = _partners(before, after)
    return [
        value if partner is None else _changed_item(document[partner], before[partner], value)
        for value, partner in zip(after, partners, strict=True)
    ]


def _changed_item(document: Any, before: Any, after: Any) -> Any:
    return document if equal(before, after) else _changed_value(document, before, after)


def _partners(before: list[Any], after: list[Any]) -> list[int | None]:
    """For each item of `after`, the place in `before` of the item that it was."""
    free = list(range(len(before)))
    partners: list[int | None] = [None] * len(after)

    def pair(place: int, found: int | None) -> None:
        if found is not None:
            partners[place] = found
            free.remove(found)

    for place, value in enumerate(after):
        pair(place, next((each for each in free if equal(before[each], value)), None))
    for place, value in enumerate(after):
        if partners[place] is None and (identity := _identity(value)) is not None:
            pair(place, next((each for each in free if _identity(before[each]) == identity), None))
    if len(before) == len(after):
        for place, value in enumerate(after):
            if partners[place] is None and place in free and _identity(value) is None:
                pair(place, place)
    return partners


def _identity(value: Any) -> tuple[str, Any] | None:
    if not is_object(value):
        return None
    return next(((key, value[key]) for key in _IDENTITIES if isinstance(value.get(key), (str, int))), None)
