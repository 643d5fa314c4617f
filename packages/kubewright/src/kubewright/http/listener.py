"""Accepts connections, and bounds how many are open, including those in their TLS handshake.

If there are too many, a new connection replaces the oldest one that waits for its client: first one of a client that
has not authenticated, then one of a client that has. If all of them serve requests, the new connection is closed. So
clients that open connections and send nothing cannot keep others out, nor stop a watch.

A connection needs a file descriptor, as files and processes do. The listener leaves a part of the process's
descriptors to them. If descriptors run out nevertheless, it closes a connection and continues to accept.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import ssl as tls
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Protocol

from kubewright._runtime.log import get_logger

_log = get_logger("kubewright.http")

BACKLOG: Final = 1024
_ACCEPTED_AT_ONCE: Final = 16
"""Connections that are accepted before other work gets its turn."""
_PAUSE: Final = 0.1
"""Seconds until the next try if the system cannot accept connections."""
_RESERVES: Final = range(64, 1024)
"""The fewest and the most descriptors that are left to files and processes."""
_PEER_SHARE: Final = 0.75
"""The part of the connections that one address may have."""
_SEARCHED: Final = 16
"""Connections that are searched for one to close. Those that are busy go to the end of the line."""
_LOG_SECONDS: Final = 10.0


class Connection(Protocol):
    """An open connection, as the listener sees it."""

    @property
    def is_waiting(self) -> bool:
        """Whether the server waits for the client, and not the client for an answer."""
        ...

    def abort(self) -> None:
        """Close the connection immediately."""
        ...


def connections_allowed() -> int:
    """Return how many connections leave enough file descriptors for the rest of this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        soft = 1 << 20
    reserve = min(max(soft // 4, _RESERVES.start), _RESERVES.stop)
    return max(1, soft - min(reserve, soft // 2))


class Place:
    """The place of one connection among those of a server."""

    __slots__ = ("_places", "_socket", "address", "connection")

    def __init__(self, places: Places, connected: socket.socket, address: str) -> None:
        self._places = places
        self._socket = connected
        self.address = address
        self.connection: Connection | None = None
        """None until the TLS handshake is complete."""

    def trust(self) -> None:
        """Note that the client has authenticated."""
        self._places.trust(self)

    def release(self) -> None:
        """Free the place, because the connection has ended."""
        self._places.release(self)

    @property
    def is_waiting(self) -> bool:
        return self.connection is None or self.connection.is_waiting

    def abort(self) -> None:
        """Close the connection immediately."""
        if self.connection is not None:
            self.connection.abort()
        else:  # ends the handshake; a cancelled one would leave the connection open under uvloop
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class Places:
    """The connections of a server. `limit` is their number; None for as many as the file descriptors allow."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._strangers: dict[Place, None] = {}
        """Connections of clients that have not authenticated, the oldest first."""
        self._trusted: dict[Place, None] = {}
        self._per_peer: Counter[str] = Counter()
        self._closed = 0
        self._logged_at = float("-inf")

    def __iter__(self) -> Iterator[Place]:
        yield from (*self._strangers, *self._trusted)

    def take(self, connected: socket.socket, address: str) -> Place | None:
        """Return a place for a new connection from this address; None if no other connection can be closed for it."""
        allowed = connections_allowed()
        most = allowed if self._limit is None else min(allowed, self._limit)
        if self._per_peer[address] >= max(1, int(most * _PEER_SHARE)):
            has_room = self.make_room(address)
        else:
            has_room = len(self._strangers) + len(self._trusted) < most or self.make_room()
        if not has_room:
            self._count_closed(address)
            return None
        place = Place(self, connected, address)
        self._strangers[place] = None
        self._per_peer[address] += 1
        return place

    def make_room(self, address: str | None = None) -> bool:
        """Close a connection that waits for its client, from this address if there is one. Returns whether it did."""
        for places in (self._strangers, self._trusted):
            for place in [each for _, each in zip(range(_SEARCHED), places, strict=False)]:
                if place.is_waiting and address in (None, place.address):
                    self._count_closed(place.address)
                    place.abort()
                    self.release(place)
                    return True
                del places[place]
                places[place] = None
        return False

    def trust(self, place: Place) -> None:
        """Note that the client of a connection has authenticated."""
        if place in self._strangers:
            del self._strangers[place]
            self._trusted[place] = None

    def release(self, place: Place) -> None:
        """Free the place of a connection that has ended."""
        for places in (self._strangers, self._trusted):
            if place in places:
                del places[place]
                self._per_peer[place.address] -= 1
                if not self._per_peer[place.address]:
                    del self._per_peer[place.address]

    def _count_closed(self, address: str) -> None:
        """Log that connections are closed. A flood of connections must not be a flood of messages."""
        self._closed += 1
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= _LOG_SECONDS:
            self._logged_at = now
            _log.warning("Too many connections", peer=address, closed=self._closed)


class Listener:
    """Listening sockets. `create` makes the protocol of each connection that is accepted."""

    def __init__(
        self,
        create: Callable[[Place], asyncio.Protocol],
        places: Places,
        *,
        ssl: tls.SSLContext | None,
        handshake_timeout: float,
    ) -> None:
        self._create = create
        self._places = places
        self._ssl = ssl
        self._handshake_timeout = handshake_timeout if ssl is not None else None
        self._sockets: list[socket.socket] = []
        self._handshakes: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    async def listen(self, host: str, port: int) -> int:
        """Listen at an address; an empty host is every interface. Returns the port. Raises OSError."""
        self._sockets = await _bound(host, port)
        for each in self._sockets:
            each.setblocking(False)
            self._loop.add_reader(each.fileno(), self._accept, each)
        return int(self._sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop to accept connections, and end handshakes."""
        for each in self._sockets:
            self._loop.remove_reader(each.fileno())
            each.close()
        for place in self._places:
            if place.connection is None:
                place.abort()
        if self._handshakes:
            await asyncio.wait(self._handshakes, timeout=_PAUSE)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connected, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listening, error)
                return
            self._begin(connected, address)

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Try again soon. A connection that the system cannot accept would wake the event loop all the time."""
        _log.warning("Connection not accepted", error=error.strerror or str(error))
        if error.errno in (errno.EMFILE, errno.ENFILE):
            self._places.make_room()
        self._loop.remove_reader(listening.fileno())
        self._loop.call_later(_PAUSE, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _begin(self, connected: socket.socket, address: tuple[object, ...]) -> None:
        place = self._places.take(connected, str(address[0]))
        if place is None:
            connected.close()
            return
        connected.setblocking(False)
        handshake = self._loop.create_task(self._connect(connected, place))
        self._handshakes.add(handshake)
        handshake.add_done_callback(self._handshakes.discard)

    async def _connect(self, connected: socket.socket, place: Place) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._create(place),
                connected,
                ssl=self._ssl,
                ssl_handshake_timeout=self._handshake_timeout,
            )
        except OSError as error:  # includes those of TLS, and of time limits
            _log.debug("Handshake failed", peer=place.address, error=str(error))
        finally:
            if place.connection is None:
                place.release()
                connected.close()


async def _bound(host: str, port: int) -> list[socket.socket]:
    if not host and socket.has_dualstack_ipv6():
        # One socket for IPv6 and IPv4, so that any free port is the same for both
        with suppress(OSError):  # IPv6 is turned off, or the port is taken: the next attempt says which
            return [socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG)]
    found = await asyncio.get_running_loop().getaddrinfo(
        host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    bound: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            bound.append(socket.create_server(address, family=family, backlog=BACKLOG))
    except OSError:
        for each in bound:
            each.close()
        raise
    return bound
