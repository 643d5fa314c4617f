"""One connection to a server: its requests are queued when they arrive, and one task answers them in order.

The connection has one task, not one per request. All timeouts share one deadline: for an idle connection, for an
incomplete request, and for a client that does not read.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import lru_cache
from typing import Final, NoReturn, cast

from kubewright._runtime.log import get_logger
from kubewright.http import wire
from kubewright.http.connection import Deadline, close_once, peer_of, trim_buffer
from kubewright.http.listener import Place
from kubewright.http.message import Handler, Pipe, PipeBroken, Request, Response, Tunnel
from kubewright.http.request_parser import Admit, Bodies, Limits, Refused, RequestParser
from kubewright.machinery.errors import ConnectionFailed

_log = get_logger("kubewright.http")

_PIPELINE = 16
"""Requests of one connection that may wait; with more, reading stops."""
_PIECE = 8 << 10
"""Bytes that are parsed at a time: the tiny requests in so many bytes may wait beyond `_PIPELINE`."""
_TURN = 64 << 10
"""Bytes that are parsed before other connections get their turn."""
_WRITE_BUFFER = 64 << 10
_LINGER = 1.0
"""Seconds in which a rejected client may continue to send, so that it reads the answer instead of a reset."""
_COALESCED = 64 << 10
"""A body up to this size is appended to its head, which is cheaper than a second write."""
_LONG = 1 << 20
"""A body above this size is written in slices, between which other connections get their turn."""
_SLICE = 256 << 10
_UNREAD = 256 << 10
"""Bytes that are buffered for a tunnel; with more, reading stops."""
_PATIENCE = 1.0
"""Seconds that a client has to read its answer, however many bytes others have not read."""
_FRAMING = frozenset({"content-length", "transfer-encoding", "connection", "date"})
"""Headers that the connection sets, not the handler."""


class Unread:
    """The bytes of answers that clients have not read, over all connections of a server.

    With too many of them, the clients that have taken longest are disconnected.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._waiting: dict[ServerConnection, tuple[float, int]] = {}
        """When the server began to wait for a client, and for how many bytes; the oldest first."""

    def add(self, connection: ServerConnection, size: int, now: float) -> None:
        """Note that a client has an answer of so many bytes to read."""
        self._waiting[connection] = (now, size)
        self._size += size
        while self._size > self._limit:
            slowest, (since, _) = next(iter(self._waiting.items()))
            if now - since < _PATIENCE:
                return
            self.remove(slowest)
            slowest.disconnect_reader()

    def remove(self, connection: ServerConnection) -> None:
        """Note that a client has read its answer, or has disconnected."""
        _, size = self._waiting.pop(connection, (0.0, 0))
        self._size -= size


class ServerConnection(asyncio.Protocol):
    """The connection of one client. `place` is its place among the connections of the server."""

    ended: asyncio.Task[None]
    """Done when the last answer is written or the client has disconnected, and the handler has ended."""

    def __init__(
        self,
        handler: Handler,
        admit: Admit | None,
        limits: Limits,
        bodies: Bodies,
        unread: Unread,
        place: Place,
    ) -> None:
        self._handler = handler
        self._admit = admit
        self._limits = limits
        self._bodies = bodies
        self._unread = unread
        self._place = place
        self._read_timeout = min(limits.read_timeout, limits.greeting_timeout)
        self._idle_timeout = min(limits.idle_timeout, limits.greeting_timeout)
        """These rise when the first request is answered."""
        self._queue: deque[Request | Refused] = deque()
        self._arrival: asyncio.Future[None] | None = None
        """The task waits for a request with it."""
        self._drain: asyncio.Future[None] | None = None
        """The task waits for the client to read with it."""
        self._invitation = False
        """A client waits for `100 Continue` after an answer that is not complete."""
        self._unparsed = b""
        """Bytes that have arrived, and are parsed later."""
        self._writable = True
        self._reading = True
        self._streaming = False
        self._incoming: Pipe | None = None
        """Data for a tunnel."""
        self._lost = False
        self._finishing = False
        """Reading has stopped; queued requests are answered, then the connection closes."""

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER)
        trim_buffer(transport)
        self._peer = peer_of(transport)
        self._parser = RequestParser(self._limits, self._bodies, self._admit, self._peer, self._enqueue, self._invite)
        self._loop = asyncio.get_running_loop()
        self._deadline = Deadline(self._loop, self._expire)
        self._place.connection = self
        if self._peer.common_name:
            self._place.trust()
        self.ended = self._loop.create_task(self._serve())

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._place.release()
        self._deadline.cancel()
        self.ended.cancel()
        self._parser.close()
        self._unparsed = b""
        while self._queue:
            self._release(self._queue.popleft())

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)

    def data_received(self, data: bytes) -> None:
        if self._incoming is not None:
            self._take(self._incoming, data)
            return
        if self._finishing:
            return
        if self._unparsed:
            self._unparsed += data
        else:
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        """Parse bytes until enough requests wait, or others have to get their turn. The rest remains unparsed."""
        parser = self._parser
        end = 0
        while end < len(data):
            start, end = end, end + _PIECE
            had_begun = parser.partial
            try:
                parser.feed(data[start:end])
            except Refused as refusal:
                self._refuse(refusal)
                return
            if self._arrival is not None and parser.partial and not had_begun:
                self._deadline.set(self._read_timeout)
            if self._is_full or end >= _TURN:
                self._pause_parsing(data[end:])
                return

    def _pause_parsing(self, rest: bytes) -> None:
        self._unparsed = rest
        if self._is_full:
            self._stop_reading()
        elif rest:
            self._stop_reading()
            self._loop.call_soon(self._continue_parsing)

    def _continue_parsing(self) -> None:
        data, self._unparsed = self._unparsed, b""
        if self._finishing or self._lost:
            return
        self._parse(data)
        if not self._unparsed and not self._is_full:
            self._resume_reading()

    @property
    def _is_full(self) -> bool:
        """Whether enough requests wait, or the answer to an upgrade request decides what follows it."""
        is_ahead = self._arrival is None and self._waiting > _UNREAD
        return is_ahead or len(self._queue) > _PIPELINE or self._parser.held is not None

    @property
    def _waiting(self) -> int:
        """Bytes of bodies that wait for the answer before them."""
        return self._parser.body_size + sum(len(each.body) for each in self._queue if isinstance(each, Request))

    def _release(self, entry: Request | Refused) -> None:
        if isinstance(entry, Request):
            self._bodies.remove(len(entry.body))

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self._reading and not self._lost:
            self._reading = True
            self._transport.resume_reading()

    def _expire(self) -> None:
        if self._arrival is not None and self._parser.partial:
            self._refuse(Refused(408, f"the request was not complete within {self._read_timeout:g} s"))
        else:
            self._transport.abort()

    # Called by the server.

    def finish(self) -> None:
        """Answer the queued requests, end a stream, then close."""
        self._finishing = True
        if self._arrival is not None and not self._queue:
            close_once(self._transport)
        elif self._streaming:
            self.ended.cancel()

    @property
    def is_waiting(self) -> bool:
        """Whether the server waits for the client: for a request, or for the rest of one."""
        return self._arrival is not None

    def abort(self) -> None:
        """Close the connection immediately, and cancel its handler."""
        self._transport.abort()

    def disconnect_reader(self) -> None:
        """Close the connection, because its client reads too slowly while others wait."""
        _log.info("Slow reader disconnected", peer=self._peer.address)
        self._transport.abort()

    # From the parser to the task.

    def _enqueue(self, entry: Request | Refused) -> None:
        self._queue.append(entry)
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def _refuse(self, refusal: Refused) -> None:
        _log.info("Request refused", peer=self._peer.address, status=refusal.status, error=str(refusal))
        self._finishing = True
        self._enqueue(refusal)

    def _invite(self) -> None:
        self._invitation = True
        if self._arrival is not None and not self._queue:
            self._send_invitation()

    def _send_invitation(self) -> None:
        self._invitation = False
        if self._parser.partial:
            self._transport.write(wire.CONTINUE)

    async def _serve(self) -> None:
        try:
            while True:
                if not self._queue:
                    if self._is_last:
                        break
                    await self._await_request()
                entry = self._queue.popleft()
                if isinstance(entry, Refused):
                    refusal = entry.response or _plain(entry.status, str(entry))
                    self._write_whole("", refusal, _own_lines(refusal))
                    await self._linger()
                try:
                    await self._answer(entry)
                finally:
                    self._release(entry)
                if self._queue:
                    await asyncio.sleep(0)  # requests in a row: others get their turn
                self._read_timeout, self._idle_timeout = self._limits.read_timeout, self._limits.idle_timeout
                if self._parser.held is not None and not self._finishing:
                    self._resume()
        except Exception:  # noqa: BLE001 - nothing awaits this task, and its client must not wait indefinitely
            _log.exception("Connection failed", peer=self._peer.address)
            self._transport.abort()
        finally:
            # Flushing may take as long as a client may pause reading.
            if not self._lost:
                self._deadline.set(self._limits.write_timeout)
                close_once(self._transport)

    def _resume(self) -> None:
        try:
            self._parser.resume()
        except Refused as refusal:
            self._refuse(refusal)

    async def _await_request(self) -> None:
        if self._invitation:
            self._send_invitation()
        if self._unparsed:
            self._loop.call_soon(self._continue_parsing)
        else:
            self._resume_reading()
        self._deadline.set(self._read_timeout if self._parser.partial else self._idle_timeout)
        self._arrival = self._loop.create_future()
        try:
            await self._arrival
        finally:
            self._arrival = None
        self._deadline.set(None)

    async def _linger(self) -> NoReturn:
        self._deadline.set(_LINGER)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        await self._loop.create_future()
        raise AssertionError("the end of the connection cancels this wait")

    async def _answer(self, request: Request) -> None:
        try:
            response = await self._handler(request)
            if request.authenticated:
                self._place.trust()
            own = _own_lines(response)
        except asyncio.CancelledError:
            if self.ended.cancelling():
                raise
            _log.exception("Handler cancelled from within", method=request.method, target=request.target)
            response, own = _failed()
        except Exception:  # noqa: BLE001 - for any error the client gets a 500
            _log.exception("Handler failed", method=request.method, target=request.target)
            response, own = _failed()
        if response.tunnel is not None:
            await self._tunnel(request, response.tunnel, own)
        elif isinstance(response.body, bytes):
            if len(response.body) > _LONG and request.method != "HEAD":
                self._transport.write(self._head_of_whole(response, own, len(response.body)))
                await self._write_slices(response.body)
            else:
                self._write_whole(request.method, response, own)
            if not self._writable:
                await self._drained(len(response.body))
        elif request.method == "HEAD" or wire.bodiless(response.status):
            await response.aclose()
            self._transport.write(self._head(response, own, ""))
        else:
            await self._write_stream(request, response, own, response.body)

    # Tunnels.

    async def _tunnel(self, request: Request, speak: Callable[[Tunnel], Awaitable[None]], own: str) -> None:
        """Give the connection to the tunnel; it serves no more requests."""
        self._finishing = self._streaming = True
        self._incoming = incoming = Pipe(on_take=self._resume_reading)
        arrived, self._unparsed = (self._parser.held or b"") + self._unparsed, b""
        if arrived:
            incoming.write(arrived)
        self._transport.write(wire.encode(f"{wire.status_line(101)}{own}connection: Upgrade\r\n\r\n"))
        self._resume_reading()
        try:
            await speak(_Tunnel(incoming, self._write_tunnelled))
        except asyncio.CancelledError:
            if self._lost:
                raise
            self.ended.uncancel()  # the server closes
        except Exception:  # noqa: BLE001 - any error ends the connection
            _log.exception("Tunnel failed", method=request.method, target=request.target)
            self._transport.abort()

    def _take(self, incoming: Pipe, data: bytes) -> None:
        incoming.write(data)
        if incoming.size > _UNREAD:
            self._stop_reading()

    async def _write_tunnelled(self, data: bytes) -> None:
        if self._transport.is_closing():
            raise ConnectionFailed("the client has disconnected")
        if len(data) > _LONG:
            await self._write_slices(data)
        else:
            self._transport.write(data)
        if not self._writable:
            await self._drained(len(data))

    # Writing.

    @property
    def _is_last(self) -> bool:
        """Whether the connection closes after the current answer."""
        return not self._queue and (self._finishing or (self._parser.last and not self._parser.partial))

    def _head(self, response: Response, own: str, framing: str) -> bytes:
        last = "connection: close\r\n" if self._is_last else ""
        date = _http_date(int(time.time()))
        return wire.encode(f"{wire.status_line(response.status)}{own}date: {date}\r\n{framing}{last}\r\n")

    def _write_whole(self, method: str, response: Response, own: str) -> None:
        body = response.body
        assert isinstance(body, bytes)
        if wire.bodiless(response.status):
            self._transport.write(self._head(response, own, ""))
            return
        head = self._head_of_whole(response, own, len(body))
        if method == "HEAD":
            self._transport.write(head)
        elif len(body) <= _COALESCED:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))

    def _head_of_whole(self, response: Response, own: str, size: int) -> bytes:
        return self._head(response, own, f"content-length: {size}\r\n")

    async def _write_slices(self, body: bytes) -> None:
        """Write many bytes. The client has to read them within the limit for the whole, not for each slice."""
        now = self._loop.time()
        view = memoryview(body)
        self._unread.add(self, len(body), now)
        try:
            for at in range(0, len(body), _SLICE):
                self._transport.write(view[at : at + _SLICE])
                if self._writable:
                    await asyncio.sleep(0)
                else:
                    await self._wait_for_reader(now + self._limits.write_timeout)
        finally:
            self._unread.remove(self)

    async def _write_stream(self, request: Request, response: Response, own: str, body: AsyncIterator[bytes]) -> None:
        chunked = not self._parser.old
        write = self._transport.write
        write(self._head(response, own, "transfer-encoding: chunked\r\n" if chunked else ""))
        self._streaming = True
        try:
            if not self._finishing:
                async for piece in body:
                    if len(piece) > _LONG:
                        await self._write_long_piece(piece, chunked=chunked)
                    elif piece:
                        write(wire.chunk(piece) if chunked else piece)
                    if not self._writable:
                        await self._drained(len(piece))
        except asyncio.CancelledError:
            if self._lost or not self._finishing:
                raise
            self.ended.uncancel()  # the server closes: this is an orderly end for the client
        except PipeBroken as error:
            _log.warning(
                "Stream cut", method=request.method, target=request.target, peer=self._peer.address, error=str(error)
            )
            self._transport.abort()
            return
        except Exception:  # noqa: BLE001 - for any error the client must see that the answer is incomplete
            _log.exception("Stream failed", method=request.method, target=request.target)
            self._transport.abort()
            return
        finally:
            self._streaming = False
            await response.aclose()
        if chunked:
            write(wire.LAST_CHUNK)

    async def _write_long_piece(self, piece: bytes, *, chunked: bool) -> None:
        if chunked:
            self._transport.write(b"%x\r\n" % len(piece))
        await self._write_slices(piece)
        if chunked:
            self._transport.write(b"\r\n")

    async def _drained(self, size: int) -> None:
        """Wait until the client has read `size` bytes, or most of them."""
        now = self._loop.time()
        self._unread.add(self, size, now)
        try:
            await self._wait_for_reader(now + self._limits.write_timeout)
        finally:
            self._unread.remove(self)

    async def _wait_for_reader(self, end: float) -> None:
        """Wait until the client has read. The deadline disconnects a client that has not at the time `end`."""
        self._deadline.set_at(end)
        self._drain = self._loop.create_future()
        try:
            await self._drain
        finally:
            self._drain = None
        self._deadline.set(None)


class _Tunnel:
    """See `Tunnel`."""

    def __init__(self, incoming: Pipe, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._incoming = incoming
        self._write = write
        self._writing = asyncio.Lock()
        """Only one task at a time can wait for the client to read."""

    async def read(self) -> bytes:
        return await anext(self._incoming)

    async def write(self, data: bytes) -> None:
        async with self._writing:
            await self._write(data)


def _own_lines(response: Response) -> str:
    """Return the lines of the handler's headers. Raises ValueError if they cannot be sent."""
    return wire.lines([pair for pair in response.headers.items() if pair[0] not in _FRAMING])


def _plain(status: int, why: str) -> Response:
    return Response.plain(status, f"{why}\n")


def _failed() -> tuple[Response, str]:
    response = _plain(500, "internal server error")
    return response, _own_lines(response)


_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@lru_cache(maxsize=1)
def _http_date(second: int) -> str:
    """Return a time in seconds in the format of RFC 9110. `email.utils` has it, too, and takes long to import."""
    at = time.gmtime(second)
    clock = f"{at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02}"
    return f"{_DAYS[at.tm_wday]}, {at.tm_mday:02} {_MONTHS[at.tm_mon - 1]} {at.tm_year:04} {clock} GMT"
