"""One connection of a client: one request at a time, its response whole or as a stream.

All timeouts share one deadline: for the answer, for the silence between two chunks, and for an idle connection.
"""

from __future__ import annotations

import asyncio
import socket
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

import httptools

from kubewright.http import wire
from kubewright.http.deadline import Deadline
from kubewright.http.message import Body, Request, Response
from kubewright.http.stream import Pipe
from kubewright.http.tls import close_once, trim_buffer
from kubewright.machinery.errors import ConnectionFailed, DeadlineExceeded

_UNREAD = 256 << 10
"""Bytes of a stream that are buffered for its reader; with more, reading stops, so that the server waits."""
_COALESCED = 64 << 10
"""A body up to this size is appended to its head, which is cheaper than a second write."""
_HEAD = 1 << 20
"""Bytes that an answer with a limited body may have in addition: its head, and the framing of its chunks."""
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(slots=True)
class PendingRequest:
    """A request, and the time limits of its answer."""

    request: Request
    head: bytes
    """Request line and headers, encoded."""
    stream: bool
    until: float
    """When the answer (its head, if streamed) is due, in the event loop's time."""
    timeout: float
    """The same in seconds from the start, for messages."""
    silence: float | None
    """The longest wait for a chunk of a stream."""

    def __str__(self) -> str:
        return f"{self.request.method} {self.request.target}"


class _Inflater(Protocol):
    """zlib's decompressor, whose class has no public name."""

    @property
    def eof(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes: ...


class ClientConnection(asyncio.Protocol):
    """A connection to `where`. Calls `on_free` when it can take another request, and `on_lost` when it is closed."""

    def __init__(
        self,
        where: str,
        on_free: Callable[[ClientConnection], None],
        on_lost: Callable[[ClientConnection], None],
        max_body: int | None = None,
    ) -> None:
        self.reused = False
        """Whether the connection has answered an earlier request, so that the server may be closing it as idle."""
        self.answered = False
        """Whether a byte of the answer to the current request has arrived."""
        self._where = where
        self._on_free = on_free
        self._on_lost = on_lost
        self._max_body = max_body
        self._pending: PendingRequest | None = None
        self._waiter: asyncio.Future[Response] | None = None
        self._pipe: Pipe | None = None
        self._paused = False
        self._status = 0
        self._headers: dict[str, str] = {}
        self._in_head = False
        self._keep = False
        self._ends_with_connection = False
        self._pieces: list[bytes] = []
        self._room: int | None = None
        """How many more bytes the body of a whole response may have; None without a limit."""
        self._allowance: int | None = None
        """How many more bytes of a limited answer may arrive."""
        self._inflater: _Inflater | None = None

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        trim_buffer(transport)
        _probe_when_silent(transport)
        self._parser = httptools.HttpResponseParser(self)
        self._loop = asyncio.get_running_loop()
        self._deadline = Deadline(self._loop, self._expire)

    def data_received(self, data: bytes) -> None:
        self.answered = True
        if self._allowance is not None:
            self._allowance -= len(data)
            if self._allowance < 0:
                self._fail(ConnectionFailed(f"{self._where} sent too long an answer to {self._pending}"))
                return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ConnectionFailed(f"{self._where} sent an invalid answer to {self._pending}: {_cause(error)}"))
            return
        if self._pipe is not None and not self._paused:
            self._expect_chunk()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._pending is not None:
            if exc is None and self._ends_with_connection:
                self._complete()
            else:
                how = f": {exc}" if exc is not None else ""
                when = "in the middle of its answer to" if self.answered else "before it answered"
                self._fail(ConnectionFailed(f"{self._where} closed the connection {when} {self._pending}{how}"))
        self._deadline.cancel()
        self._on_lost(self)

    def _expire(self) -> None:
        pending = self._pending
        if pending is None:
            close_once(self._transport)
        elif self._pipe is not None:
            silence = f"was silent for {pending.silence:g} s"
            self._fail(DeadlineExceeded(f"{self._where} {silence} in the stream of {pending}"))
        else:
            self._fail(DeadlineExceeded(f"{self._where} did not answer {pending} within {pending.timeout:g} s"))

    # Called by the pool.

    @property
    def usable(self) -> bool:
        return not self._transport.is_closing()

    def exchange(self, pending: PendingRequest) -> asyncio.Future[Response]:
        """Send a request on a free connection. If its fence raises, the connection is closed.

        A caller that stops waiting for the response must abort the connection.
        """
        if pending.request.fence is not None:
            try:
                pending.request.fence()
            except BaseException:
                self._transport.abort()
                raise
        self._pending = pending
        self.answered = False
        self._deadline.set_at(pending.until)
        self._allowance = None if self._max_body is None or pending.stream else self._max_body + _HEAD
        waiter = self._waiter = self._loop.create_future()
        body = pending.request.body
        if len(body) <= _COALESCED:
            self._transport.write(pending.head + body)
        else:
            self._transport.writelines((pending.head, body))
        return waiter

    def idle(self, seconds: float) -> None:
        """Mark the connection as idle. It closes if it stays unused for that time."""
        self._deadline.set(seconds)

    def abort(self) -> None:
        self._transport.abort()

    # Called by the parser.

    def on_message_begin(self) -> None:
        if self._pending is None:
            raise ConnectionFailed("an answer without a request")
        self._headers = {}
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            key, text, headers = wire.name(name), value.decode("utf-8", "surrogateescape"), self._headers
            headers[key] = f"{headers[key]}, {text}" if key in headers else text

    def on_headers_complete(self) -> None:
        self._in_head = False
        pending = self._pending
        assert pending is not None
        self._status = status = self._parser.get_status_code()
        if status < 200:
            if status == 101:
                raise ConnectionFailed("the server changed the protocol without being asked")
            return
        headers = self._headers
        self._keep = self._parser.should_keep_alive()
        self._inflater = zlib.decompressobj(_GZIP) if headers.get("content-encoding") == "gzip" else None
        self._room = None if pending.stream else self._max_body
        if pending.request.method == "HEAD":
            # The parser would wait for the body that the headers announce, so the connection is not reused.
            self._keep = False
            self._complete()
        elif not wire.bodiless(status):
            self._ends_with_connection = not ("content-length" in headers or "transfer-encoding" in headers)
            if pending.stream:
                self._begin_stream()

    def on_body(self, body: bytes) -> None:
        if self._pending is None:
            return  # the answer to HEAD must not have a body
        if self._inflater is not None:
            body = self._inflated(self._inflater, body)
        if self._room is not None:
            self._room -= len(body)
            if self._room < 0:
                raise ConnectionFailed(f"its body has more than {self._max_body} bytes")
        pipe = self._pipe
        if pipe is None:
            self._pieces.append(body)
        elif body:
            pipe.write(body)
            if pipe.size > _UNREAD and not self._paused:
                self._paused = True
                self._deadline.set(None)
                self._transport.pause_reading()

    def _inflated(self, inflater: _Inflater, data: bytes) -> bytes:
        """Decompress, but no more than fits into the limit of the body and one byte."""
        return inflater.decompress(data) if self._room is None else inflater.decompress(data, self._room + 1)

    def on_message_complete(self) -> None:
        if self._status >= 200 and self._pending is not None:
            self._complete()

    def _begin_stream(self) -> None:
        self._pipe = Pipe(on_take=self._continue_reading, on_abandon=self.abort)
        self._expect_chunk()
        self._resolve(self._pipe)

    def _expect_chunk(self) -> None:
        assert self._pending is not None
        self._deadline.set(self._pending.silence)

    def _continue_reading(self) -> None:
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
            if self._pipe is not None:
                self._expect_chunk()

    def _resolve(self, body: Body) -> None:
        if self._inflater is not None:
            self._headers.pop("content-encoding")
            self._headers.pop("content-length", None)
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(Response(self._status, self._headers, body))

    def _complete(self) -> None:
        if self._inflater is not None and not self._inflater.eof:
            self._fail(ConnectionFailed(f"{self._where} truncated its compressed answer to {self._pending}"))
            return
        self._pending = None
        self._ends_with_connection = False
        pieces, self._pieces = self._pieces, []
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            self._continue_reading()
            pipe.close()
        else:
            self._resolve(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if self._keep:
            self.reused = True
            self._on_free(self)
        else:
            close_once(self._transport)

    def _fail(self, error: Exception) -> None:
        self._pending = None
        waiter, self._waiter = self._waiter, None
        pipe, self._pipe = self._pipe, None
        self._transport.abort()
        if pipe is not None:
            pipe.close(error)
        elif waiter is not None and not waiter.done():
            waiter.set_exception(error)


def _cause(error: Exception) -> BaseException:
    """Return the error of a callback, which the parser wraps, or the parser's own."""
    return error.__context__ or error


def _probe_when_silent(transport: asyncio.BaseTransport) -> None:
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is None:
        return
    # Detects a peer that vanished within about 75 s, also on a stream without a limit on silence.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):  # not available on every system
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
