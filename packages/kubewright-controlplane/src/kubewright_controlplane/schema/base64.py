"""Base64 as Go decodes it into bytes: line breaks are ignored, and so are bits that encode nothing.

Follows encoding/base64.StdEncoding.
"""

from __future__ import annotations

import binascii
import re
from typing import Final

_OTHER: Final = re.compile(rb"[^A-Za-z0-9+/\r\n]")
"""A byte that encodes nothing, and is not ignored either."""
_LINE_BREAKS: Final = re.compile(rb"[\r\n]*")


def canonical(text: str) -> str:
    """Return `text` without line breaks, as the server stores it. Raises ValueError if it is not base64."""
    try:
        encoded = binascii.b2a_base64(binascii.a2b_base64(text), newline=False).decode()
    except ValueError:
        encoded = ""
    return text if text == encoded else _encode(decode(text))


def decode(text: str) -> bytes:
    """Return the bytes that `text` encodes. Raises ValueError with the offset of the first wrong byte."""
    data = text.encode()
    wrong = _first_wrong_byte(data)
    if wrong is not None:
        raise ValueError(f"illegal base64 data at input byte {wrong}")
    return binascii.a2b_base64(data)


def _encode(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


def _first_wrong_byte(data: bytes) -> int | None:
    """Return the offset at which Go stops decoding; None if it decodes all of `data`."""
    other = _OTHER.search(data)
    end = len(data) if other is None else other.start()
    pending = (end - data.count(b"\n", 0, end) - data.count(b"\r", 0, end)) % 4
    if other is None:
        return end - pending if pending else None
    return _wrong_padding(data, end, pending) if other[0] == b"=" else end


def _wrong_padding(data: bytes, index: int, pending: int) -> int | None:
    """Return the offset of the first wrong byte from a padding character on."""
    if pending < 2:
        return index
    after = _skip_line_breaks(data, index + 1)
    if pending == 2:
        if after == len(data):
            return after
        if data[after] != ord("="):
            return after - 1
        after = _skip_line_breaks(data, after + 1)
    return after if after < len(data) else None


def _skip_line_breaks(data: bytes, index: int) -> int:
    found = _LINE_BREAKS.match(data, index)
    return index if found is None else found.end()
