"""SPDY/3.1 on the server's side: streams of bytes in one connection, as clients of exec and port forwarding use it.

    response = accept(request, protocols=["v4.channel.k8s.io"], speak=speak)

answers a request that upgrades its connection. Then `speak(connection, protocol)` uses the streams. A `Connection` also
works over another `Link`: port forwarding tunnels SPDY through a WebSocket.

Guarantees
    A peer can't make this side hold more than one control frame of `_LONGEST_CONTROL` bytes, its headers, and the
    state of `_MOST_STREAMS` streams. Data is passed on as it arrives, however long its frame is.
    Other connections get their turn after the frames in `_PIECE` bytes.
Not guaranteed
    The flow control windows of the peer are not respected: the library that Kubernetes uses never enlarges them, so
    its clients would get 64 KiB at most. TCP slows the sender down instead. This side does enlarge its own windows
    when data has been consumed, for peers that respect them.

Source: https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeAlias

import msgspec

from kubewright.http.message import Request, Response, Tunnel
from kubewright.machinery.errors import ConnectionFailed

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _HEADERS, _WINDOW_UPDATE = 1, 2, 3, 6, 7, 8, 9
_LENGTHS: Final = {_SYN_STREAM: 10, _SYN_REPLY: 4, _RST_STREAM: 8, _PING: 4, _GOAWAY: 8, _HEADERS: 4}
"""The least bytes of the frames that matter here. Settings and windows have no effect."""
_PROTOCOL_ERROR, _REFUSED_STREAM, _CANCEL = 1, 3, 5
_VERSION: Final = 3
_CONTROL: Final = 0x8000
_FIN: Final = 0x01
_STREAM: Final = 0x7FFFFFFF
_LONGEST_CONTROL: Final = 64 << 10
"""The largest control frame in bytes, and the largest headers after decompression."""
_MOST_HEADERS: Final = 100
_MOST_STREAMS: Final = 1000
"""Streams that are open at a time. Others are refused."""
_WINDOW: Final = 32 << 10
"""Consumed bytes of a stream after which the peer may send more."""
_CHUNK: Final = 64 << 10
"""Bytes in one frame of data. With longer frames, one stream would delay the others."""
_PIECE: Final = 8 << 10
"""Bytes whose frames are handled before other connections get their turn."""
_FAREWELL: Final = 5.0
"""Seconds that a peer has to close its connection after the last frame."""
_PROTOCOL_HEADER: Final = "x-stream-protocol-version"

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


class Opened(msgspec.Struct, frozen=True):
    """The peer has opened a stream. Answer it by `accept` or `reset`."""

    stream: int
    headers: Mapping[str, str]


class Data(msgspec.Struct, frozen=True):
    """Bytes of a stream; the last ones if `ended`."""

    stream: int
    data: bytes
    ended: bool


class Reset(msgspec.Struct, frozen=True):
    """The peer has canceled a stream."""

    stream: int


Frame: TypeAlias = Opened | Data | Reset


class _Stream(msgspec.Struct):
    """A stream that is open in at least one direction."""

    is_sending: bool = True
    is_receiving: bool = True
    consumed: int = 0
    """Consumed bytes that the peer does not know of."""


class Session:
    """The frames of one connection, without I/O. What it has to answer itself waits in `outgoing`."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._unpack = zlib.decompressobj(zdict=DICTIONARY)
        self._pack = zlib.compressobj(zdict=DICTIONARY)
        self._streams: dict[int, _Stream] = {}
        self._latest = 0
        """The highest stream that the peer has opened."""
        self._partial = (0, 0, 0)
        """A frame of data that is not complete: its stream, its flags, and the bytes that are missing."""
        self._outgoing: list[bytes] = []

    def receive(self, data: bytes) -> Iterator[Frame]:
        """Return the frames that matter to streams. Raises ValueError for data that is not SPDY/3.1; then close."""
        self._received += data
        while True:
            stream, flags, missing = self._partial
            if missing:
                if not self._received:
                    return
                piece = bytes(self._received[:missing])
                del self._received[: len(piece)]
                self._partial = (stream, flags, missing - len(piece))
                yield from self._data(stream, piece, ended=len(piece) == missing and bool(flags & _FIN))
                continue
            if len(self._received) < 8:
                return
            head, rest = struct.unpack_from(">II", self._received)
            flags, length = rest >> 24, rest & 0xFFFFFF
            if not head >> 31:
                del self._received[:8]
                self._partial = (head, flags, length)
                if not length:
                    yield from self._data(head, b"", ended=bool(flags & _FIN))
                continue
            if (head >> 16) != _CONTROL | _VERSION or length > _LONGEST_CONTROL:
                raise ValueError(f"a frame of version {head >> 16 & 0x7FFF} with {length} bytes is not SPDY/3.1")
            if len(self._received) < 8 + length:
                return
            body = bytes(self._received[8 : 8 + length])
            del self._received[: 8 + length]
            yield from self._control(head & 0xFFFF, body, flags)

    def outgoing(self) -> bytes:
        """Return what has to be sent to the peer now: answers to pings, refusals, larger windows."""
        frames, self._outgoing = self._outgoing, []
        return b"".join(frames)

    def accept(self, stream: int) -> bytes:
        """Accept a stream."""
        headers = self._pack.compress(struct.pack(">I", 0)) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        return _control(_SYN_REPLY, struct.pack(">I", stream) + headers)

    def reset(self, stream: int) -> bytes:
        """Cancel a stream, or refuse it."""
        self._streams.pop(stream, None)
        return _control(_RST_STREAM, struct.pack(">II", stream, _CANCEL))

    def data(self, stream: int, data: bytes, *, end: bool = False) -> bytes:
        """Return frames with bytes of a stream; the last ones if `end`. Nothing for a stream that is closed."""
        state = self._streams.get(stream)
        if state is None or not state.is_sending:
            return b""
        pieces = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)] or [b""]
        if end:
            state.is_sending = False
            self._drop_closed(stream)
        frames = [struct.pack(">II", stream, len(piece)) + piece for piece in pieces[:-1]]
        last = pieces[-1]
        return b"".join(frames) + struct.pack(">II", stream, (_FIN if end else 0) << 24 | len(last)) + last

    def consume(self, data: Data) -> None:
        """Let the peer send as many bytes more as `data` has, once that is worth a frame."""
        state = self._streams.get(data.stream)
        if state is None or not state.is_receiving:
            return
        state.consumed += len(data.data)
        if state.consumed >= _WINDOW:
            self._outgoing.append(_control(_WINDOW_UPDATE, struct.pack(">II", data.stream, state.consumed)))
            state.consumed = 0

    def goodbye(self) -> bytes:
        """Return the frame that announces the end of the connection."""
        return _control(_GOAWAY, struct.pack(">II", self._latest, 0))

    def _data(self, stream: int, data: bytes, *, ended: bool) -> Iterator[Frame]:
        state = self._streams.get(stream)
        if state is None or not state.is_receiving:
            return  # the stream was refused or canceled while the frame was on its way
        if ended:
            state.is_receiving = False
            self._drop_closed(stream)
        yield Data(stream, data, ended)

    def _drop_closed(self, stream: int) -> None:
        state = self._streams[stream]
        if not (state.is_sending or state.is_receiving):
            del self._streams[stream]

    def _control(self, kind: int, body: bytes, flags: int) -> Iterator[Frame]:
        if kind not in _LENGTHS:
            return
        if len(body) < _LENGTHS[kind]:
            raise ValueError(f"a frame of kind {kind} has {len(body)} bytes, which is too short")
        number = struct.unpack_from(">I", body)[0]
        if kind == _PING:
            if number % 2:  # an even number would be the answer to a ping of this side
                self._outgoing.append(_control(_PING, body[:4]))
        elif kind == _RST_STREAM:
            if self._streams.pop(number & _STREAM, None) is not None:
                yield Reset(number & _STREAM)
        elif kind != _GOAWAY:
            headers = self._headers(body[_LENGTHS[kind] :])  # also of a refused stream: they share their compression
            if kind == _SYN_STREAM:
                yield from self._open(number & _STREAM, headers, flags)

    def _open(self, stream: int, headers: Mapping[str, str], flags: int) -> Iterator[Frame]:
        if stream % 2 == 0 or stream <= self._latest:
            self._outgoing.append(_control(_RST_STREAM, struct.pack(">II", stream, _PROTOCOL_ERROR)))
            return
        self._latest = stream
        if len(self._streams) >= _MOST_STREAMS:
            self._outgoing.append(_control(_RST_STREAM, struct.pack(">II", stream, _REFUSED_STREAM)))
            return
        self._streams[stream] = _Stream()
        yield Opened(stream, headers)
        if flags & _FIN:
            yield from self._data(stream, b"", ended=True)

    def _headers(self, packed: bytes) -> dict[str, str]:
        try:
            block = self._unpack.decompress(packed, _LONGEST_CONTROL)
            if self._unpack.unconsumed_tail:
                raise ValueError(f"headers are longer than {_LONGEST_CONTROL} bytes")
            return dict(_pairs(block))
        except (zlib.error, struct.error) as error:
            raise ValueError(f"headers cannot be decompressed: {error}") from error


def _pairs(block: bytes) -> Iterator[tuple[str, str]]:
    (count,), at = struct.unpack_from(">I", block), 4
    if count > _MOST_HEADERS:
        raise ValueError(f"a stream may have {_MOST_HEADERS} headers, not {count}")
    for _ in range(count):
        words: list[str] = []
        for _ in range(2):
            (length,) = struct.unpack_from(">I", block, at)
            if length > len(block) - at - 4:
                raise ValueError(f"headers end within a word of {length} bytes")
            words.append(block[at + 4 : at + 4 + length].decode(errors="replace"))
            at += 4 + length
        yield words[0].lower(), words[1]


def _control(kind: int, body: bytes) -> bytes:
    return struct.pack(">HHI", _CONTROL | _VERSION, kind, len(body)) + body


class Link(Protocol):
    """What carries the frames: a connection, or a WebSocket."""

    async def receive(self) -> bytes | None:
        """Return the data that has arrived; None after the peer closed."""
        ...

    async def send(self, message: bytes) -> None:
        """Send data, and wait while the peer does not read. Raises ConnectionFailed if one side has closed."""
        ...


class Connection:
    """The streams of one peer."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._session = Session()

    async def frames(self) -> AsyncIterator[Frame]:
        """Yield what happens to streams, until the peer closes or breaks the protocol.

        Data counts as consumed when the next frame is asked for.
        """
        with suppress(ValueError):
            while (received := await self._link.receive()) is not None:
                for at in range(0, len(received), _PIECE):
                    if at:
                        await asyncio.sleep(0)
                    for frame in self._session.receive(received[at : at + _PIECE]):
                        yield frame
                        if isinstance(frame, Data):
                            self._session.consume(frame)
                    await self._send(self._session.outgoing())

    async def accept(self, stream: int) -> None:
        await self._send(self._session.accept(stream))

    async def send(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """Send bytes of a stream; the last ones if `end`. Does nothing if the stream is closed."""
        await self._send(self._session.data(stream, data, end=end))

    async def reset(self, stream: int) -> None:
        """Cancel a stream, or refuse it."""
        await self._send(self._session.reset(stream))

    async def close(self) -> None:
        """Announce the end, and wait until the peer has closed: what it has not read yet would be lost otherwise."""
        with suppress(ConnectionFailed, TimeoutError):
            await self._send(self._session.goodbye())
            async with asyncio.timeout(_FAREWELL):
                while await self._link.receive() is not None:
                    pass

    async def _send(self, data: bytes) -> None:
        if data:
            await self._link.send(data)


class _TunnelLink:
    """A connection that changed its protocol to SPDY. Its user is cancelled when the peer closes it."""

    def __init__(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel

    async def receive(self) -> bytes | None:
        return await self._tunnel.read()

    async def send(self, message: bytes) -> None:
        await self._tunnel.write(message)


def accept(request: Request, protocols: Sequence[str], speak: Callable[[Connection, str], Awaitable[None]]) -> Response:
    """Return the response that changes to SPDY/3.1, with the first of the client's protocols that is in `protocols`."""
    if request.upgrade != "spdy/3.1" or "upgrade" not in request.headers.get("connection", "").lower():
        return Response.plain(400, "unable to upgrade: missing upgrade headers in request\n")
    offered = [each.strip() for each in request.headers.get(_PROTOCOL_HEADER, "").split(",") if each.strip()]
    if not offered:
        return Response.plain(400, "unable to upgrade: header X-Stream-Protocol-Version does not exist in request\n")
    chosen = next((each for each in offered if each in protocols), None)
    if chosen is None:
        why = f"client supports [{' '.join(offered)}], server accepts [{' '.join(protocols)}]"
        refused = Response.plain(403, f"unable to upgrade: unable to negotiate protocol: {why}\n")
        refused.headers["x-accepted-stream-protocol-versions"] = ", ".join(protocols)
        return refused

    async def begin(tunnel: Tunnel) -> None:
        connection = Connection(_TunnelLink(tunnel))
        await speak(connection, chosen)
        await connection.close()

    return Response(101, {"upgrade": "SPDY/3.1", _PROTOCOL_HEADER: chosen}, tunnel=begin)
