"""One call of the gRPC health protocol, `grpc.health.v1.Health/Check`, over HTTP/2 without TLS.

Only what this call needs of HTTP/2 is here: one stream, small frames, and headers that are sent without compression and
not read. An answer that consists of headers alone is an error of the server.

Follows https://github.com/grpc/grpc/blob/master/doc/health-checking.md and RFC 9113.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_END_STREAM: Final = 0x01
_ACK: Final = 0x01
_END_HEADERS: Final = 0x04
_PADDED: Final = 0x08
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_LONGEST_FRAME: Final = 16 << 10
_LONGEST_ANSWER: Final = 4 << 10
_METHOD_AND_SCHEME: Final = b"\x83\x86"
"""`POST` and `http`, as entries of HPACK's static table."""
_PATH, _AUTHORITY, _CONTENT_TYPE, _USER_AGENT = b"\x04", b"\x01", b"\x0f\x10", b"\x0f\x2b"
"""Headers with a name in that table and a value of their own."""
_STATUSES: Final = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")


class HealthCheckFailed(Exception):
    """The server did not answer with its health. The message says why."""


class _Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    body: bytes


async def health(host: str, port: int, service: str) -> str:
    """Return the health of a service, such as `SERVING`. Raises OSError, and HealthCheckFailed for another answer."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_call(f"{host}:{port}", service))
        async for data in _answer(reader, writer):
            return _status(data)
        raise HealthCheckFailed(
            f'the server answered with an error: it does not know the service "{service}", or does not implement the '
            "grpc health protocol (grpc.health.v1.Health)"
        )
    except asyncio.IncompleteReadError:
        raise HealthCheckFailed("the server closed the connection without an answer") from None
    finally:
        writer.close()


def _call(authority: str, service: str) -> bytes:
    name = service.encode()
    message = b"\x0a" + _varint(len(name)) + name if name else b""
    headers = (
        _METHOD_AND_SCHEME
        + _PATH + _text(b"/grpc.health.v1.Health/Check")
        + _AUTHORITY + _text(authority.encode())
        + _CONTENT_TYPE + _text(b"application/grpc")
        + _USER_AGENT + _text(b"kube-probe/1.36")
        + b"\x00" + _text(b"te") + _text(b"trailers")
    )  # fmt: skip
    body = struct.pack(">BI", 0, len(message)) + message
    return (
        _PREFACE
        + _frame(_SETTINGS, 0, 0, b"")
        + _frame(_HEADERS, _END_HEADERS, 1, headers)
        + _frame(_DATA, _END_STREAM, 1, body)
    )


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AsyncIterator[bytes]:
    """Yield the message of the answer, if there is one."""
    received = b""
    while True:
        frame = await _read(reader)
        if frame.kind in (_SETTINGS, _PING) and not frame.flags & _ACK:
            writer.write(_frame(frame.kind, _ACK, 0, frame.body if frame.kind == _PING else b""))
        elif frame.kind == _GOAWAY or (frame.kind == _RST_STREAM and frame.stream == 1):
            raise HealthCheckFailed("the server canceled the call")
        elif frame.kind == _DATA and frame.stream == 1:
            received += _unpadded(frame)
            if len(received) >= 5 and len(received) >= 5 + struct.unpack_from(">I", received, 1)[0]:
                yield received[5:]
                return
            if len(received) > _LONGEST_ANSWER:
                raise HealthCheckFailed("the answer is too long")
        if frame.stream == 1 and frame.kind in (_DATA, _HEADERS) and frame.flags & _END_STREAM:
            return


async def _read(reader: asyncio.StreamReader) -> _Frame:
    head = await reader.readexactly(9)
    length, kind, flags = int.from_bytes(head[:3]), head[3], head[4]
    if length > _LONGEST_FRAME:
        raise HealthCheckFailed(f"the server does not speak HTTP/2: a frame of {length} bytes")
    return _Frame(kind, flags, int.from_bytes(head[5:]) & 0x7FFFFFFF, await reader.readexactly(length))


def _unpadded(frame: _Frame) -> bytes:
    if not frame.flags & _PADDED or not frame.body:
        return frame.body
    return frame.body[1 : len(frame.body) - frame.body[0]]


def _status(message: bytes) -> str:
    """Read the field `status` of a HealthCheckResponse. Without it, the status is the first one."""
    if len(message) >= 2 and message[0] == 0x08 and message[1] < len(_STATUSES):
        return _STATUSES[message[1]]
    return _STATUSES[0]


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3) + struct.pack(">BBI", kind, flags, stream) + body


def _text(value: bytes) -> bytes:
    """Return a text in HPACK, without Huffman coding."""
    if len(value) < 0x7F:
        return bytes((len(value),)) + value
    return b"\x7f" + _varint(len(value) - 0x7F) + value


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))
