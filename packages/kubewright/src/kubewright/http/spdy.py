"""SPDY/3.1 on the server's side, as far as `kubectl port-forward` speaks it: streams of bytes in one connection.

Turns bytes into frames, and frames into bytes, without I/O. Flow control windows are ignored, as in the library that
Kubernetes uses.

Source: https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING = 1, 2, 3, 6
_VERSION: Final = 3
_CONTROL: Final = 0x8000
_FIN: Final = 0x01
_STREAM: Final = 0x7FFFFFFF
_LONGEST_CONTROL: Final = 64 << 10
"""The largest control frame in bytes, and the largest headers after decompression."""

_WORDS: Final = (
    "options,head,post,put,delete,trace,accept,accept-charset,accept-encoding,accept-language,accept-ranges,age,"
    "allow,authorization,cache-control,connection,content-base,content-encoding,content-language,content-length,"
    "content-location,content-md5,content-range,content-type,date,etag,expect,expires,from,host,if-match,"
    "if-modified-since,if-none-match,if-range,if-unmodified-since,last-modified,location,max-forwards,pragma,"
    "proxy-authenticate,proxy-authorization,range,referer,retry-after,server,te,trailer,transfer-encoding,upgrade,"
    "user-agent,vary,via,warning,www-authenticate,method,get,status,200 OK,version,HTTP/1.1,url,public,set-cookie,"
    "keep-alive,origin"
)
DICTIONARY: Final = b"".join(struct.pack(">I", len(word)) + word.encode() for word in _WORDS.split(",")) + (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    b"203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    b"404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    b"Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    b"chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    b"publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
"""The compression dictionary of both sides."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The client has opened a stream. Answer it by `Session.reply`."""

    stream: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of a stream; the last ones if `ended`."""

    stream: int
    data: bytes
    ended: bool


@dataclass(frozen=True, slots=True)
class Reset:
    """The client has canceled a stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class Ping:
    """The client expects `Session.pong`."""

    number: int


Frame: TypeAlias = Opened | Data | Reset | Ping


class Session:
    """The frames of one connection."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._unpack = zlib.decompressobj(zdict=DICTIONARY)
        self._pack = zlib.compressobj(zdict=DICTIONARY)

    def receive(self, data: bytes) -> Iterator[Frame]:
        """Return the complete frames. Raises ValueError for data that is not SPDY/3.1; then close the connection."""
        self._received += data
        while len(self._received) >= 8:
            head, rest = struct.unpack_from(">II", self._received)
            flags, length = rest >> 24, rest & 0xFFFFFF
            kind = head & 0xFFFF if head >> 31 else None
            if kind is not None and ((head >> 16) != _CONTROL | _VERSION or length > _LONGEST_CONTROL):
                raise ValueError(f"a frame of version {head >> 16 & 0x7FFF} with {length} bytes is not SPDY/3.1")
            if len(self._received) < 8 + length:
                return
            body = bytes(self._received[8 : 8 + length])
            del self._received[: 8 + length]
            if kind is None:
                yield Data(head & _STREAM, body, bool(flags & _FIN))
            else:
                yield from self._control(kind, body, flags)

    def reply(self, stream: int) -> bytes:
        """Accept a stream."""
        headers = self._pack.compress(struct.pack(">I", 0)) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        return _control(_SYN_REPLY, struct.pack(">I", stream) + headers)

    def data(self, stream: int, data: bytes, *, end: bool = False) -> bytes:
        """Return a frame with bytes of a stream, fewer than 16 MiB; the last ones if `end`."""
        return struct.pack(">II", stream, (_FIN if end else 0) << 24 | len(data)) + data

    def pong(self, ping: Ping) -> bytes:
        return _control(_PING, struct.pack(">I", ping.number))

    def _control(self, kind: int, body: bytes, flags: int) -> Iterator[Frame]:
        if kind not in (_SYN_STREAM, _RST_STREAM, _PING):  # settings and windows have no effect here
            return
        if len(body) < (10 if kind == _SYN_STREAM else 4):
            raise ValueError(f"a frame of kind {kind} has {len(body)} bytes, which is too short")
        number = struct.unpack_from(">I", body)[0]
        if kind == _PING:
            yield Ping(number)
        elif kind == _RST_STREAM:
            yield Reset(number & _STREAM)
        else:
            yield Opened(number & _STREAM, self._headers(body[10:]))
            if flags & _FIN:
                yield Data(number & _STREAM, b"", ended=True)

    def _headers(self, packed: bytes) -> dict[str, str]:
        try:
            block = self._unpack.decompress(packed, _LONGEST_CONTROL)
            return dict(_pairs(block))
        except (zlib.error, struct.error) as error:
            raise ValueError(f"headers cannot be decompressed: {error}") from error


def _pairs(block: bytes) -> Iterator[tuple[str, str]]:
    (count,), at = struct.unpack_from(">I", block), 4
    for _ in range(count):
        words: list[str] = []
        for _ in range(2):
            (length,) = struct.unpack_from(">I", block, at)
            words.append(block[at + 4 : at + 4 + length].decode(errors="replace"))
            at += 4 + length
        yield words[0].lower(), words[1]


def _control(kind: int, body: bytes) -> bytes:
    return struct.pack(">HHI", _CONTROL | _VERSION, kind, len(body)) + body
