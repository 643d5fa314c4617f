"""An HTTP/1.1 client: a small pool of connections to one server.

Guarantees
    An idempotent request (RFC 9110, 9.2.2) is sent again, on a new connection, if the server had closed an idle
    connection and no byte of an answer arrived. No other request is sent twice.
    A truncated response is an error, never a short body.
    A stream buffers at most 256 KiB for a slow reader; then the server has to wait.
    Cancelling a caller closes its connection.
    A request with the header `upgrade` gets a connection of its own. After 101, the body of the response has the bytes
    of the server, and its `write` sends bytes. Closing the response closes the connection.
Not supported
    HTTP/2, redirects, cookies. Compression other than gzip; gzip comes only when the caller asks for it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl as tls
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, cast
from urllib.parse import urlsplit

import httptools
import msgspec

from kubewright.http import wire
from kubewright.http.connection import Deadline, close_once, trim_buffer
from kubewright.http.message import Body, Pipe, Request, Response
from kubewright.http.proxy import Proxy
from kubewright.machinery.errors import ConfigError, ConnectionFailed, DeadlineExceeded

_UNREAD = 256 << 10
"""Bytes of a stream that are buffered for its reader; with more, reading stops, so that the server waits."""
_COALESCED = 64 << 10
"""A body up to this size is appended to its head, which is cheaper than a second write."""
_PIECE = 32 << 10
"""Bytes that are parsed at a time."""
_CHUNKS = 2000
"""Pieces of a body that are handled before other connections get their turn."""
_HEAD = 1 << 20
"""Bytes of the head of an answer. Also the longest sequence of bytes that belongs to no body, such as a line before a
chunk, and the bytes of the framing of all chunks of a limited body.
"""
_INFLATED = 16 << 20
"""Bytes that one read from a compressed stream may become. A read has at most 256 KiB."""
_JOINED = 64 << 10
"""The longest value of a header that occurs several times. Each time it is copied."""
_GZIP = 16 + zlib.MAX_WBITS


class PendingRequest(msgspec.Struct):
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
        self._apart = 0
        """Bytes in a row that belong to no body."""
        self._unparsed = b""
        """Bytes that have arrived, and are parsed later."""
        self._chunks = 0
        """Pieces of a body since others had their turn."""
        self._inflater: _Inflater | None = None
        self._is_tunnel = False
        """Whether the connection has changed its protocol."""
        self._drain: asyncio.Future[None] | None = None
        """Pending while the server does not read."""

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        trim_buffer(transport)
        _probe_when_silent(transport)
        self._parser = httptools.HttpResponseParser(self)
        self._loop = asyncio.get_running_loop()
        self._deadline = Deadline(self._loop, self._expire)

    def data_received(self, data: bytes) -> None:
        if self._is_tunnel:
            self._take(data)
            return
        self.answered = True
        if self._allowance is not None:
            self._allowance -= len(data)
            if self._allowance < 0:
                self._fail(self._too_long())
                return
        if self._unparsed:
            self._unparsed += data
        else:
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        """Parse bytes until the reader is late, or others have to get their turn, which tiny chunks need. The rest
        remains unparsed.
        """
        self._chunks = 0
        for start in range(0, len(data), _PIECE):
            if self._is_tunnel:
                self._take(data[start:])
                return
            if self._chunks > _CHUNKS or self._paused:
                self._postpone(data[start:])
                return
            if not self._feed(data[start : start + _PIECE]):
                return

    def _postpone(self, rest: bytes) -> None:
        if self._pending is None:
            self._transport.abort()  # nobody asked for more, and the next request must not get it
            return
        self._unparsed = rest
        if not self._paused:
            self._transport.pause_reading()
            self._loop.call_soon(self._continue_parsing)

    def _continue_parsing(self) -> None:
        data, self._unparsed = self._unparsed, b""
        if data and not self._transport.is_closing():
            self._parse(data)
            if not self._unparsed and not self._paused:
                self._transport.resume_reading()

    def _feed(self, data: bytes) -> bool:
        """Parse bytes. Returns whether the connection can be used further."""
        self._apart += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if not self._is_tunnel:
                self._fail(self._invalid("it changes the protocol without being asked"))
                return False
            self._take(data[upgrade.args[0] :])
            return True
        except httptools.HttpParserError as error:
            self._fail(self._invalid(_cause(error)))
            return False
        if self._apart > _HEAD:
            self._fail(self._too_long())
            return False
        return True

    def _too_long(self) -> ConnectionFailed:
        if self._status:
            what = f"the framing of its body has more than {_HEAD} bytes"
        else:
            what = f"its head has more than {_HEAD} bytes"
        return self._invalid(what)

    def _invalid(self, what: object) -> ConnectionFailed:
        return ConnectionFailed(f"{self._where} sent an invalid answer to {self._pending}: {what}")

    def pause_writing(self) -> None:
        self._drain = self._loop.create_future()

    def resume_writing(self) -> None:
        drain, self._drain = self._drain, None
        if drain is not None and not drain.done():
            drain.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.resume_writing()
        if self._unparsed:
            data, self._unparsed = self._unparsed, b""
            self._feed(data)
        if self._is_tunnel:
            self._end_tunnel(exc)
        elif self._pending is not None:
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
        self._status = self._apart = 0
        self.answered = False
        self._deadline.set_at(pending.until)
        self._allowance = None if self._max_body is None or pending.stream else _HEAD
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
            if key in headers:
                text = f"{headers[key]}, {text}"
                if len(text) > _JOINED:
                    raise ConnectionFailed(f"its header {key!r} has more than {_JOINED} bytes")
            headers[key] = text

    def on_headers_complete(self) -> None:
        self._in_head = False
        pending = self._pending
        assert pending is not None
        status = self._parser.get_status_code()
        if status < 200:
            if status == 101:
                self._begin_tunnel(pending)
            return
        self._status = status
        if self._allowance is not None and self._max_body is not None:
            self._allowance += self._max_body + _HEAD
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
        self._apart = 0
        self._chunks += 1
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
            elif not self._paused:
                self._expect_chunk()

    def _inflated(self, inflater: _Inflater, data: bytes) -> bytes:
        """Decompress, but no more than fits into the limit of the body and one byte. Raises ConnectionFailed for a
        stream that becomes too large, and for bytes after its end.
        """
        if inflater.eof:
            raise ConnectionFailed("bytes follow its compressed body")
        if self._room is not None:
            return inflater.decompress(data, self._room + 1)
        inflated = inflater.decompress(data, _INFLATED + 1)
        if len(inflated) > _INFLATED:
            raise ConnectionFailed(f"{len(data)} bytes of its compressed body become more than {_INFLATED}")
        return inflated

    def on_message_complete(self) -> None:
        if self._status >= 200 and self._pending is not None:
            self._complete()

    def _begin_stream(self) -> None:
        self._pipe = Pipe(on_take=self._continue_reading, on_abandon=self.abort)
        self._expect_chunk()
        self._resolve(self._pipe)

    def _begin_tunnel(self, pending: PendingRequest) -> None:
        if not pending.request.upgrade or not pending.stream:
            raise ConnectionFailed("the server changed the protocol without being asked")
        self._is_tunnel, self._status = True, 101
        self._deadline.set(None)
        self._pipe = Pipe(on_take=self._continue_reading, on_abandon=self.abort)
        self._resolve(self._pipe)

    def _take(self, data: bytes) -> None:
        """Pass on bytes of the new protocol."""
        pipe = self._pipe
        if pipe is not None and data:
            pipe.write(data)
            if pipe.size > _UNREAD and not self._paused:
                self._paused = True
                self._transport.pause_reading()

    async def _write(self, data: bytes) -> None:
        """Send bytes of the new protocol. Raises ConnectionFailed if the connection is closed."""
        if not self.usable:
            raise ConnectionFailed(f"{self._where} closed the connection")
        self._transport.write(data)
        if self._drain is not None:
            await self._drain

    def _end_tunnel(self, exc: Exception | None) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close(ConnectionFailed(f"{self._where} closed the connection: {exc}") if exc is not None else None)

    def _expect_chunk(self) -> None:
        assert self._pending is not None
        self._deadline.set(self._pending.silence)

    def _continue_reading(self) -> None:
        if self._paused:
            self._paused = False
            if self._unparsed:
                self._loop.call_soon(self._continue_parsing)
            else:
                self._transport.resume_reading()
            if self._pipe is not None and not self._is_tunnel:
                self._expect_chunk()

    def _resolve(self, body: Body) -> None:
        if self._inflater is not None:
            self._headers.pop("content-encoding")
            self._headers.pop("content-length", None)
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            response = Response(self._status, self._headers, body)
            if self._is_tunnel:
                response.write = self._write
            waiter.set_result(response)

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


_PORTS = {"http": 80, "https": 443}
_MANY = 64
"""The largest number of header sets whose lines are cached."""


class HTTPClient:
    """Sends requests to the server at `base_url`, `http[s]://host:port[/path]`. Its bound `send` is a `Handler`.

    The path of `base_url` is a prefix of the target of every request.

    `ssl` is required for https: a context, or a function that returns the context of each new connection.
    `server_name` is the name in the server's certificate, if it is not the host of the URL. `proxy` is the URL of a
    proxy, used for both schemes by CONNECT. `address` is where to connect to instead of the host and port of the URL,
    which requests still name. `headers` are sent with every request; a name may occur several times.
    `timeout` and `connect_timeout` are in seconds; the latter is for TCP, proxy and TLS together. At most
    `max_connections` whole requests run at a time, and others wait; streams do not count. Connections that were idle
    for `idle_timeout` seconds are closed. `max_body` is the largest body of a whole response in bytes, also after
    decompression; a larger one is an invalid answer.
    """

    def __init__(
        self,
        base_url: str,
        *,
        ssl: tls.SSLContext | Callable[[], tls.SSLContext] | None = None,
        server_name: str | None = None,
        proxy: str | None = None,
        address: tuple[str, int] | None = None,
        headers: Sequence[tuple[str, str]] = (),
        timeout: float = 60.0,
        connect_timeout: float = 10.0,
        max_connections: int = 32,
        idle_timeout: float = 50.0,
        max_body: int | None = None,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ConfigError(f"server {base_url!r} is not a URL; write https://host:port")
        if parts.scheme == "https" and ssl is None:
            raise ConfigError(f"server {base_url!r} needs a TLS context")
        self._host = parts.hostname
        self._port = parts.port or _PORTS[parts.scheme]
        self._address = address or (self._host, self._port)
        self._ssl = ssl if parts.scheme == "https" else None
        self._server_name = server_name or self._host
        self._proxy = Proxy(proxy) if proxy else None
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.where = f"{host}:{self._port}"
        """`host:port`, as in messages."""
        self._path = parts.path.rstrip("/")
        self._fixed = wire.lines([("host", self.where), *headers])
        self._lines: dict[tuple[tuple[str, str], ...], str] = {}
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._max_connections = max_connections
        self._idle_timeout = idle_timeout
        self._max_body = max_body
        self._idle: list[ClientConnection] = []
        self._open: set[ClientConnection] = set()
        self._under_way = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._emptied = asyncio.Event()

    async def send(
        self,
        request: Request,
        *,
        authorization: str = "",
        headers: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        stream: bool = False,
    ) -> Response:
        """Send `request`, with `authorization` as the value of that header, and return the response.

        `headers` are sent too; a name may occur several times.

        Whole (`stream` false): the body is bytes, and all of it arrives within `timeout` seconds (None: the client's
        default). Streamed: the body is an iterator of chunks as they arrive. `timeout` is then the longest silence
        before the head and before each chunk. None limits only the wait for the head.

        Raises ConnectionFailed if no answer or only a part of one arrives, and DeadlineExceeded if it is late; so does
        a streamed body. Raises ValueError for a request that cannot be sent as HTTP.
        """
        allowed = timeout or self._timeout
        until = asyncio.get_running_loop().time() + allowed
        pending = PendingRequest(request, self._head(request, authorization, headers), stream, until, allowed, timeout)
        if not stream:
            if self._under_way >= self._max_connections:
                await self._turn(pending)
            else:
                self._under_way += 1
        try:
            connection = None if request.upgrade else self._take_idle()
            while True:
                connection = connection or await self._connect(pending)
                try:
                    return await connection.exchange(pending)
                except asyncio.CancelledError:
                    connection.abort()
                    raise
                except ConnectionFailed:
                    if not connection.reused or connection.answered or not request.is_repeatable:
                        raise
                    connection = None
        finally:
            if not stream:
                self._pass_turn()

    async def close(self) -> None:
        """Close every connection, streams too. Requests that run fail with ConnectionFailed."""
        self._closed = True
        for connection in list(self._open):
            connection.abort()
        if self._open:
            await self._emptied.wait()

    def _head(self, request: Request, authorization: str, further: Sequence[tuple[str, str]]) -> bytes:
        first = wire.request_line(request.method, self._path + request.target)
        headers = (*request.headers.items(), *further, ("authorization", authorization))
        own = self._lines.get(headers)
        if own is None:
            own = self._remember(headers)
        body = request.body
        length = f"content-length: {len(body)}\r\n" if body or request.method in ("POST", "PUT", "PATCH") else ""
        return wire.encode(f"{first}{own}{length}\r\n")

    def _remember(self, headers: tuple[tuple[str, str], ...]) -> str:
        """Return and cache the lines of these headers and of those of every request. Programs use few sets."""
        if len(self._lines) >= _MANY:
            self._lines.clear()
        lines = self._lines[headers] = self._fixed + wire.lines(headers if headers[-1][1] else headers[:-1])
        return lines

    async def _turn(self, pending: PendingRequest) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            async with asyncio.timeout_at(pending.until):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._pass_turn()
            if isinstance(error, TimeoutError):
                busy = f"all {self._max_connections} connections to {self.where} were busy"
                raise DeadlineExceeded(f"{pending}: {busy} for {pending.timeout:g} s") from error
            raise

    def _pass_turn(self) -> None:
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._under_way -= 1

    # Connections.

    def _take_idle(self) -> ClientConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    def _release(self, connection: ClientConnection) -> None:
        if self._closed or len(self._idle) >= self._max_connections:
            connection.abort()
        else:
            connection.idle(self._idle_timeout)
            self._idle.append(connection)

    def _forget(self, connection: ClientConnection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if self._closed and not self._open:
            self._emptied.set()

    async def _connect(self, pending: PendingRequest) -> ClientConnection:
        via = f"{self.where} through proxy {self._proxy.host}:{self._proxy.port}" if self._proxy else self.where
        latest = asyncio.get_running_loop().time() + self._connect_timeout
        try:
            async with asyncio.timeout_at(min(latest, pending.until)):
                connection = await self._dial()
        except TimeoutError as error:
            seconds = min(self._connect_timeout, pending.timeout)
            raise ConnectionFailed(f"cannot connect to {via}: no connection within {seconds:g} s") from error
        except OSError as error:
            raise ConnectionFailed(f"cannot connect to {via}: {_reason(error)}") from error
        self._open.add(connection)
        if self._closed:
            connection.abort()
            raise ConnectionFailed(f"the client of {self.where} is closed")
        return connection

    async def _dial(self) -> ClientConnection:
        loop = asyncio.get_running_loop()
        connection = ClientConnection(self.where, self._release, self._forget, self._max_body)
        ssl = self._ssl() if callable(self._ssl) else self._ssl
        name = self._server_name if ssl else None
        if self._proxy is None:
            await loop.create_connection(lambda: connection, *self._address, ssl=ssl, server_hostname=name)
            return connection
        tunnel = await self._proxy.tunnel(self.where)
        if ssl is None:
            tunnel.set_protocol(connection)
            connection.connection_made(tunnel)
            tunnel.resume_reading()
            return connection
        secured = await loop.start_tls(tunnel, connection, ssl, server_hostname=name)
        assert secured is not None
        connection.connection_made(secured)
        return connection


def _reason(error: OSError) -> str:
    """Return the reason of an error, without the numbers and addresses that event loops add."""
    if isinstance(error, tls.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, tls.SSLError):
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, socket.gaierror):
        return f"its name cannot be resolved: {error.strerror}"
    return os.strerror(error.errno) if error.errno else str(error)
