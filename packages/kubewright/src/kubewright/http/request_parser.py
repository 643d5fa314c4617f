"""Parses requests, and rejects invalid ones: the part of the server that faces hostile input.

Rejects every message that two parsers could read as different requests (RFC 9112, 11.2: request smuggling). The parser
in C rejects some of them (a length and chunks, two lengths, bare line feeds, folded lines), and this module the others.
"""

from __future__ import annotations

from collections.abc import Callable

import httptools
import msgspec

from kubewright.http import wire
from kubewright.http.message import Peer, Request, Response


class Limits(msgspec.Struct, frozen=True):
    """Limits for one client of a server. Sizes are in bytes, times in seconds."""

    head: int = 64 << 10
    """Request line and headers; larger ones get 431."""
    body: int = 16 << 20
    """Larger bodies get 413."""
    read_timeout: float = 60.0
    """For a whole request after its first byte; later requests get 408."""
    greeting_timeout: float = 30.0
    """For the TLS handshake of a new connection, and then for its first request."""
    write_timeout: float = 30.0
    """A client that does not read for this time is disconnected."""
    idle_timeout: float = 120.0
    """Between two requests. Longer than clients keep idle connections, so that clients close them."""
    bodies: int = 256 << 20
    """Bodies of all connections that have arrived, and are not answered yet; further ones get 429."""
    unread: int = 512 << 20
    """Bytes of answers that clients have not read, over all connections. With more, the slowest are disconnected."""
    connections: int | None = None
    """Open connections; a further one replaces another. None for as many as the file descriptors allow."""


class Refused(Exception):
    """A rejected request. Nothing that follows it on its connection is read."""

    def __init__(self, status: int, why: str, response: Response | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.response = response
        """The answer; None for `why` as text."""


class Bodies:
    """The bytes of request bodies that a server holds, over all its connections."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0

    def add(self, size: int) -> None:
        """Count bytes that have arrived. Raises Refused if there are too many."""
        self._size += size
        if self._size > self._limit:
            raise Refused(429, "too many bytes of request bodies are being received; try again later")

    def remove(self, size: int) -> None:
        """Count bytes that are no longer held."""
        self._size -= size


Admit = Callable[[Request], "Response | None"]
"""Takes a request whose body has not arrived yet. Returns an answer that refuses it; None to read the body."""

_ADMITTED = 64 << 10
"""A body up to this size is read without asking whether the request is admitted."""


class RequestParser:
    """Calls `deliver` with the requests of one connection, and `invite` when a client waits before it sends a body."""

    def __init__(
        self,
        limits: Limits,
        bodies: Bodies,
        admit: Admit | None,
        peer: Peer,
        deliver: Callable[[Request], None],
        invite: Callable[[], None],
    ) -> None:
        self.partial = False
        """A request has begun, and is not complete."""
        self.last = False
        """The client announced that this is the last request."""
        self.old = False
        """The client speaks HTTP/1.0, which has no chunks."""
        self.held: bytes | None = None
        """Bytes that follow an upgrade request. Its answer decides whether they are HTTP."""
        self.body_size = 0
        """Bytes of the body that have arrived of an incomplete request."""
        self._limits = limits
        self._bodies = bodies
        self._admit = admit
        self._peer = peer
        self._deliver = deliver
        self._invite = invite
        self._parser = httptools.HttpRequestParser(self)
        self._in_head = False
        self._head_size = 0
        self._fed_apart = 0
        """Bytes in a row that belong to no body: a head, the sizes of chunks, trailers."""
        self._completed = False
        """Whether a request was complete within the last bytes."""
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: bytes | bytearray = b""
        self._admitted = False

    def feed(self, data: bytes) -> None:
        """Parse more bytes. Raises Refused; the parser cannot be used after that."""
        if self.held is not None:
            self.held += data
            return
        self._completed, body_size = False, self.body_size
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.held = data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, Refused):
                raise error.__context__ from None
            raise Refused(400, str(error) or "not HTTP/1.1") from None
        if not self.partial or self._completed or self.body_size != body_size:
            self._fed_apart = 0
        else:
            # An endless line never reaches a callback, because the parser keeps it.
            self._fed_apart += len(data)
            if self._fed_apart > self._limits.head:
                raise self._head_too_large()

    def close(self) -> None:
        """Forget what has arrived. The parser refers to itself, so its memory is returned late."""
        self._bodies.remove(self.body_size)
        self.body_size = 0
        self._body, self._headers, self.held = b"", {}, None

    def resume(self) -> None:
        """Keep HTTP after an upgrade request (RFC 9110, 7.8), and parse the held bytes. Raises Refused."""
        held, self.held = self.held, None
        if held:
            self.feed(held)

    # Called by the parser, which wraps the errors that are raised here: see `feed`.

    def on_message_begin(self) -> None:
        self.partial = self._in_head = True
        self._head_size = self.body_size = 0
        self._admitted = False
        self._url = b""
        self._headers = {}
        self._body = b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value) + 4
        if not self._in_head:  # a trailer
            if self._head_size > self._limits.head:
                raise self._head_too_large()
            return
        key = wire.name(name)
        headers = self._headers
        if key not in headers:
            headers[key] = wire.text(value)
        elif key == "host":
            raise Refused(400, "two Host headers")
        else:
            headers[key] += ", " + wire.text(value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        headers = self._headers
        if self._head_size + len(self._url) > self._limits.head:
            raise self._head_too_large()
        if "connection" in headers or not self._parser.should_keep_alive():
            self._settle_version()
        if "host" not in headers and not self.old:
            raise Refused(400, "no Host header")
        if self._parser.should_upgrade():
            self._check_upgrade()
        if "transfer-encoding" in headers:
            self._check_coding()
        elif "content-length" in headers:
            self._check_length(int(headers["content-length"]))
        if "expect" in headers:
            self._settle_expectation()

    def on_body(self, body: bytes) -> None:
        self.body_size += len(body)
        self._bodies.add(len(body))
        if self.body_size > _ADMITTED and not self._admitted:
            self._check_admitted()
        if self.body_size > self._limits.body:
            raise self._body_too_large()
        if not self._body:
            self._body = body
        elif isinstance(self._body, bytearray):
            self._body += body
        else:
            self._body = bytearray(self._body) + body

    def on_message_complete(self) -> None:
        self.partial, self._completed = False, True
        body, self._body, self.body_size = self._body, b"", 0
        self._deliver(self._request(bytes(body)))

    def _request(self, body: bytes) -> Request:
        method = self._parser.get_method().decode()
        return Request(method, wire.text(self._url), self._headers, body, self._peer)

    def _check_admitted(self) -> None:
        """Ask whether the body is to be read. Raises Refused."""
        self._admitted = True
        refusal = self._admit(self._request(b"")) if self._admit is not None else None
        if refusal is not None:
            raise Refused(refusal.status, "refused before its body was read", refusal)

    def _settle_version(self) -> None:
        version = self._parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise Refused(505, f"HTTP/{version} is not supported; use HTTP/1.1")
        self.old = version == "1.0"
        self.last = self.old or not self._parser.should_keep_alive()

    def _check_upgrade(self) -> None:
        # The parser treats the bytes after such a head as those of the new protocol. A body would be read as the next
        # request, while a proxy in front of this server treats it as a body.
        if self._parser.get_method() == b"CONNECT":
            raise Refused(405, "this server is not a proxy")
        if "transfer-encoding" in self._headers or self._headers.get("content-length", "0") != "0":
            raise Refused(400, "a request to upgrade the connection must not have a body")

    def _check_length(self, length: int) -> None:
        if length > _ADMITTED:
            self._check_admitted()
        if length > self._limits.body:
            raise self._body_too_large()

    def _check_coding(self) -> None:
        if self.old or self._headers["transfer-encoding"].lower() != "chunked":
            raise Refused(501, "the only supported transfer coding is chunked")

    def _settle_expectation(self) -> None:
        if self._headers["expect"].lower() != "100-continue":
            raise Refused(417, "the only supported expectation is 100-continue")
        self._invite()

    def _head_too_large(self) -> Refused:
        return Refused(431, f"request line and headers are over {self._limits.head} bytes")

    def _body_too_large(self) -> Refused:
        return Refused(413, f"the body is over {self._limits.body} bytes")
