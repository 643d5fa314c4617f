"""An HTTP/1.1 server: a handler behind a socket.

Guarantees
    Requests of one connection are answered in order, one at a time; several connections are served concurrently.
    If a client disconnects, the handler of its request is cancelled and its stream is closed.
    A client that does not read is disconnected after `write_timeout` seconds. Until then the server buffers no more
    than the stream's limit and the socket's buffers, and for all clients no more than `Limits.unread`, apart from
    answers of the last second. An ambiguous request (a length and chunks, two lengths, two hosts) gets 400. An
    exception in the handler is a 500 for the client, and is logged in full. A connection changes its protocol if the
    handler's response has a `tunnel`. Any other response to an upgrade request is sent as usual.
Not supported
    CONNECT, HTTP/2, compression.

Standards: RFC 9110, RFC 9112.
"""

from __future__ import annotations

import asyncio
import errno
import ssl as tls

from kubewright.http.listener import Listener, Place, Places
from kubewright.http.message import Handler
from kubewright.http.request_parser import Admit, Bodies, Limits
from kubewright.http.server_connection import ServerConnection, Unread
from kubewright.machinery.errors import ConfigError

_CUT = 1.0
"""Seconds for handlers and sockets to end after they were cancelled or closed."""


class Server:
    """Serves `handler` at the address `host` and `port` (0: any free one), over TLS when `ssl` is given.

    A body above `limits.body` bytes gets 413 in plain text. A handler that wants another answer needs a smaller limit
    of its own. `admit` may refuse a request with a large body before the body is read; the connection then ends.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        ssl: tls.SSLContext | None = None,
        limits: Limits | None = None,
        admit: Admit | None = None,
    ) -> None:
        self._handler = handler
        self._admit = admit
        self._host = host
        self._port = port
        self._ssl = ssl
        self._limits = limits or Limits()
        self._bodies = Bodies(self._limits.bodies)
        self._unread = Unread(self._limits.unread)
        self._listener: Listener | None = None
        self._places = Places(self._limits.connections)

    @property
    def port(self) -> int:
        """The port that the server listens on, after `start`."""
        return self._port

    async def start(self) -> None:
        """Listen. Raises ConfigError if the address is not available."""
        listener = Listener(
            self._connection, self._places, ssl=self._ssl, handshake_timeout=self._limits.greeting_timeout
        )
        try:
            self._port = await listener.listen(self._host, self._port)
        except OSError as error:
            raise ConfigError(_why_not(self._host, self._port, error)) from error
        self._listener = listener

    def _connection(self, place: Place) -> ServerConnection:
        return ServerConnection(self._handler, self._admit, self._limits, self._bodies, self._unread, place)

    @property
    def _connections(self) -> set[ServerConnection]:
        return {each.connection for each in self._places if isinstance(each.connection, ServerConnection)}

    async def close(self, grace: float = 0.0) -> None:
        """Stop accepting, end streams, wait `grace` seconds for running requests, then close all connections."""
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        await listener.close()
        connections = self._connections
        for connection in connections:
            connection.finish()
        await _ended(connections, grace)
        connections |= self._connections
        for connection in connections:
            connection.abort()
        await _ended(connections, _CUT)


async def _ended(connections: set[ServerConnection], seconds: float) -> None:
    if connections:
        await asyncio.wait([each.ended for each in connections], timeout=seconds)


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{host}:{port} is in use by another process; stop it, or choose another port (port 0 is any free one)"
    if error.errno == errno.EACCES:
        return f"not allowed to listen on {host}:{port}; ports below 1024 need permissions, choose a higher one"
    return f"cannot listen on {host}:{port}: {error.strerror or error}"
