"""Protobuf's wire format: varints, and fields of a tag and a value.

Functions that read take `(data, position)` and return the position after the value. Reading past the end of `data`
raises IndexError; a value that exceeds its message raises Truncated.

Follows https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

_SIGN: Final = 1 << 63
_WRAP: Final = 1 << 64


class Truncated(Exception):
    """A value is longer than the message that contains it."""


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read an unsigned varint of up to 64 bits."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (_WRAP - 1), position
        shift += 7
        if shift > 63:
            raise Truncated


def signed(value: int) -> int:
    """Return a varint as int32 or int64. Both are written as 64-bit two's complement."""
    return value - _WRAP if value >= _SIGN else value


def skip(data: bytes, position: int, tag: int, end: int) -> int:
    """Return the position after the value of an unknown field."""
    kind = tag & 7
    if kind == VARINT:
        _, position = read_varint(data, position)
    elif kind == BYTES:
        size, position = read_varint(data, position)
        position += size
    elif kind == FIXED64:
        position += 8
    elif kind == FIXED32:
        position += 4
    else:
        raise Truncated
    if position > end:
        raise Truncated
    return position


def read_length_delimited(data: bytes) -> dict[int, bytes]:
    """Return the length-delimited fields of a message, by number. Of several with the same number, the last one
    counts.
    """
    found: dict[int, bytes] = {}
    position = 0
    while position < len(data):
        tag, position = read_varint(data, position)
        if tag & 7 != BYTES:
            position = skip(data, position, tag, len(data))
            continue
        size, position = read_varint(data, position)
        if position + size > len(data):
            raise Truncated
        found[tag >> 3] = data[position : position + size]
        position += size
    return found


def varint(value: int) -> bytes:
    """Encode `value`, a signed or unsigned integer of 64 bits, as a varint."""
    if value < 0:
        value += _WRAP
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, kind: int) -> bytes:
    return varint(number << 3 | kind)


def length_delimited(content: bytes) -> bytes:
    """Return `content` after its length: the value of a length-delimited field."""
    return varint(len(content)) + content
