"""Applies the changes of a struct to the document it was read from, and keeps its unknown fields.

Only differences are applied. Items of a list are paired: first equal ones, then those with the same name, key, type, or
other identity, then those at the same index of a list whose length did not change. An item without a partner is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec

from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright.models._struct import Struct
from kubewright.models._values import encode, plain

Field: TypeAlias = tuple[str, str, Any]
"""Attribute, name on the wire, and omitted value of a field."""

_IDENTITIES: Final = ("name", "key", "type", "uid", "mount_path", "container_port", "port", "ip", "topology_key")


def changed(document: JSONObject, before: Struct, after: Struct) -> JSONObject:
    """Return `document`, from which `before` was read, with the differences of `after` applied. Changes no input."""
    fields = _fields(type(after))
    return with_fields(
        document,
        before,
        after,
        [each for each in fields if not _same(getattr(before, each[0]), getattr(after, each[0]))],
    )


def with_fields(document: JSONObject, before: Struct, after: Struct, fields: Iterable[Field]) -> JSONObject:
    """Return `document`, from which `before` was read, with the differences of these fields of `after` applied."""
    out = dict(document)
    for name, wire, default in fields:
        now = getattr(after, name)
        if now == default:
            out.pop(wire, None)
        else:
            out[wire] = _changed_value(document.get(wire), getattr(before, name), now)
    return out


def encoded_fields(value: Struct) -> list[bytes]:
    """Return each field as JSON, for `fields_changed_since`."""
    return [_encoded(getattr(value, name)) for name, _, _ in _fields(type(value))]


def fields_changed_since(encoded: Sequence[bytes], value: Struct) -> list[Field]:
    """Return the fields that differ from what they were when `encoded_fields` returned `encoded`."""
    fields = zip(_fields(type(value)), encoded, strict=True)
    return [field for field, was in fields if _encoded(getattr(value, field[0])) != was]


def _encoded(value: Any) -> bytes:
    return b"" if value is msgspec.UNSET else encode(value)


def _required(value: Struct) -> JSONObject:
    """Return the fields without which there is no structure of this class."""
    fields = msgspec.structs.fields(type(value))
    return {each.encode_name: plain(getattr(value, each.name)) for each in fields if each.required}


@cache
def _fields(cls: type[Struct]) -> list[Field]:
    return [(each.name, each.encode_name, _not_sent(each)) for each in msgspec.structs.fields(cls)]


def _not_sent(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is list:
        return []
    return {} if field.default_factory is dict else field.default


def _same(was: Any, now: Any) -> bool:
    return was is now or _encoded(was) == _encoded(now)


def _changed_value(document: Any, was: Any, now: Any) -> Any:
    if isinstance(now, Struct) and type(was) is type(now):
        if document is None:  # the class has a default that the document lacks
            return changed(_required(was), was, now)
        if is_object(document):
            return changed(document, was, now)
    if is_object(document) and is_object(was) and is_object(now):
        return _changed_map(document, was, now)
    if is_array(document) and is_array(was) and is_array(now) and len(document) == len(was):
        return _changed_list(document, was, now)
    return plain(now)


def _changed_map(document: JSONObject, was: JSONObject, now: JSONObject) -> JSONObject:
    kept = {key: value for key, value in document.items() if key not in was}
    return kept | {key: _changed_item(document.get(key), was.get(key), value) for key, value in now.items()}


def _changed_list(document: list[Any], was: list[Any], now: list[Any]) -> list[Any]:
    return [
        plain(value) if partner is None else _changed_item(document[partner], was[partner], value)
        for value, partner in zip(now, _partners(was, now), strict=True)
    ]


def _changed_item(document: Any, was: Any, now: Any) -> Any:
    return document if _same(was, now) else _changed_value(document, was, now)


def _partners(was: list[Any], now: list[Any]) -> list[int | None]:
    """For each item of `now`, the index in `was` of the item it was before."""
    free = list(range(len(was)))
    partners: list[int | None] = [None] * len(now)

    def pair(place: int, found: int | None) -> None:
        if found is not None:
            partners[place] = found
            free.remove(found)

    for place, value in enumerate(now):
        pair(place, next((each for each in free if _same(was[each], value)), None))
    for place, value in enumerate(now):
        if partners[place] is None and (identity := _identity(value)) is not None:
            pair(place, next((each for each in free if _identity(was[each]) == identity), None))
    if len(was) == len(now):
        for place, value in enumerate(now):
            if partners[place] is None and place in free and _identity(value) is None:
                pair(place, place)
    return partners


def _identity(value: Any) -> tuple[str, Any] | None:
    for name in _IDENTITIES:
        found = value.get(name) if is_object(value) else getattr(value, name, None)
        if isinstance(found, (str, int)):
            return name, found
    return None
