"""Decoded JSON documents: type names for signatures, and functions to compare and show them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

import msgspec

if TYPE_CHECKING:
    import json

JSONObject: TypeAlias = dict[str, Any]
"""A JSON object. A schema describes its fields, not a Python type."""

JSONArray: TypeAlias = list[Any]
"""A JSON array of anything."""

DEPTH_LIMIT: Final = 256
"""Levels of objects and lists in a document. Go's limit is 10,000; Python's depends on its version and the caller."""

read_object: Final = msgspec.json.Decoder(JSONObject).decode
"""Decode a JSON object from bytes. Raises msgspec.DecodeError. Shared, because creating a decoder is expensive."""


def is_object(value: object) -> TypeGuard[JSONObject]:
    """Return whether a decoded value is a JSON object."""
    return value.__class__ is dict


def is_array(value: object) -> TypeGuard[JSONArray]:
    """Return whether a decoded value is a JSON array."""
    return value.__class__ is list


def copied(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    if is_object(value):
        return {key: copied(item) for key, item in value.items()}
    if is_array(value):
        return [copied(item) for item in value]
    return value


def equal(left: object, right: object) -> bool:
    """Return whether two decoded values are equal. Python's `==` treats `true` as 1; this does not."""
    if left.__class__ is str:
        return left == right
    return left == right and _same_booleans(left, right)


def _same_booleans(left: object, right: Any) -> bool:
    """Return whether two values that are equal by `==` have `true` and `false` in the same places."""
    if is_object(left):
        for key, value in left.items():
            if value.__class__ is not str and not _same_booleans(value, right[key]):
                return False
        return True
    if is_array(left):
        return all(map(_same_booleans, left, right))
    return (left.__class__ is bool) == (right.__class__ is bool)


def compact(value: object) -> str:
    """Return JSON text without spaces and with sorted keys: identical for equal values."""
    return _compact_encoder().encode(value)


def quoted(text: str) -> str:
    """Return text in quotes, as Go's `%q` does."""
    return f'"{"".join(_ESCAPES.get(each) or _escaped(each) for each in text)}"'


_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}


def _escaped(character: str) -> str:
    """Return a character as Go's `%q` writes it: one that cannot be printed as its number."""
    number = ord(character)
    if character.isprintable():
        return character
    return f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def number(value: float) -> str:
    """Return a number as Go prints it: a whole float has no fraction."""
    return str(int(value)) if isinstance(value, int) or (value.is_integer() and abs(value) < 1e21) else repr(value)


@cache
def _compact_encoder() -> json.JSONEncoder:
    import json

    return json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)
