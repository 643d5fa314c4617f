"""Encoding of messages: heads, headers and chunks.

Headers are UTF-8, and other bytes are kept as they are, because Go's servers and clients send both. A name or value
with a line break is rejected, not escaped. Follows RFC 9110 and RFC 9112.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

_NOT_UTF8 = dict.fromkeys(range(0xDC80, 0xDD00), "\N{REPLACEMENT CHARACTER}")
"""How `text` keeps bytes that are not UTF-8."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def bodiless(status: int) -> bool:
    """Return whether a response of this status never has a body (RFC 9112, 6.3)."""
    return status < 200 or status in (204, 304)


@lru_cache(maxsize=256)
def status_line(status: int) -> str:
    from http import HTTPStatus  # only servers need it

    phrases = {each.value: each.phrase for each in HTTPStatus}
    return f"HTTP/1.1 {status} {phrases.get(status, 'Unknown')}\r\n"


def lines(headers: Iterable[tuple[str, str]]) -> str:
    """Return the headers, one per line. Raises ValueError for a name or value with a line break.

    The error does not show the value, which may be a token.
    """
    parts = [f"{key}: {value}\r\n" for key, value in headers]
    joined = "".join(parts)
    if joined.count("\n") != len(parts) or joined.count("\r") != len(parts) or "\0" in joined:
        wrong = (each.partition(":")[0] for each in parts if set("\r\n\0") & set(each.removesuffix("\r\n")))
        raise ValueError(f"the header {next(wrong)!r} contains a line break or NUL")
    return joined


def encode(head: str) -> bytes:
    return head.encode("utf-8", "surrogateescape")


def request_line(method: str, target: str) -> str:
    """Return the first line of a request. Raises ValueError for an invalid method or target."""
    if not (target.isascii() and target.isprintable()) or " " in target or not method.isalpha():
        raise ValueError(f"invalid request line: {method!r} {target!r}; percent-encode the target")
    return f"{method} {target} HTTP/1.1\r\n"


def text(data: bytes) -> str:
    """Return a header's value as in `Request.headers` and `Response.headers`."""
    return data.decode("utf-8", "surrogateescape")


def readable(value: str) -> str:
    """Return a header's value with a replacement for each byte that is not UTF-8, as JSON may have it."""
    return value if value.isascii() else value.translate(_NOT_UTF8)


@lru_cache(maxsize=256)
def name(data: bytes) -> str:
    """Return a header's name as it is there. Messages use few names, so they are cached."""
    return text(data).lower()


def chunk(data: bytes) -> bytes:
    """Return one chunk of a chunked body. `data` must not be empty: an empty chunk means the end."""
    return b"%x\r\n%b\r\n" % (len(data), data)
