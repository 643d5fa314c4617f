"""WebSockets: messages over a connection that has changed its protocol (RFC 6455).

    return accept(request, protocols=["v5.channel.k8s.io"], speak=speak)

answers the request on the server's side. Then `speak(socket)` uses the connection; it is cancelled if the client
disconnects without a close message. A client sends the headers of `offer`, and checks the answer by `agreed_protocol`.

wsproto does the framing. The handshakes are here, because the HTTP server and client read the heads of messages.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, TextMessage
from wsproto.utilities import LocalProtocolError

from kubewright.http.message import Request, Response, Tunnel
from kubewright.machinery.errors import ConnectionFailed

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_LONGEST: Final = 16 << 20
"""The largest fragmented message in bytes."""
_PIECE: Final = 8 << 10
"""Bytes that are parsed at a time: wsproto copies the rest of them for each frame."""
_TOGETHER: Final = 32
"""Frames that are handled before other connections get their turn."""


class WebSocket:
    """One WebSocket. `protocol` is the negotiated subprotocol."""

    def __init__(self, tunnel: Tunnel, protocol: str, *, is_client: bool = False) -> None:
        self.protocol = protocol
        self._tunnel = tunnel
        self._connection = Connection(ConnectionType.CLIENT if is_client else ConnectionType.SERVER)
        self._message = bytearray()
        """The part of the message that has arrived."""
        self._unparsed = b""
        self._handled = 0

    async def receive(self) -> bytes | None:
        """Return the next message, text in UTF-8; None after the peer closed, or was disconnected for a violation."""
        while True:
            for event in self._connection.events():
                self._handled += 1
                if self._handled % _TOGETHER == 0:
                    await asyncio.sleep(0)
                done, message = await self._handle(event)
                if done:
                    return message
            arrived = self._unparsed or await self._tunnel.read()
            self._connection.receive_data(arrived[:_PIECE])
            self._unparsed = arrived[_PIECE:]

    async def send(self, message: bytes) -> None:
        """Send a binary message. Raises ConnectionFailed if one side has closed."""
        await self._send(BytesMessage(data=message))

    async def send_text(self, message: str) -> None:
        """Send a text message. Raises ConnectionFailed if one side has closed."""
        await self._send(TextMessage(data=message))

    async def close(self, code: int = 1000) -> None:
        """Send the close message. Does nothing the second time."""
        if self._connection.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
            await self._send(CloseConnection(code=code))

    async def _handle(self, event: Event) -> tuple[bool, bytes | None]:
        """Return whether a message is complete, and the message."""
        if isinstance(event, BytesMessage | TextMessage):
            data = event.data
            self._message += data.encode() if isinstance(data, str) else data
            if len(self._message) > _LONGEST:
                await self.close(1009)
                return True, None
            if event.message_finished:
                message = bytes(self._message)
                self._message.clear()
                return True, message
        elif isinstance(event, Ping):
            await self._send(event.response())
        elif isinstance(event, CloseConnection):
            await self.close(event.code)
            return True, None
        return False, None

    async def _send(self, event: Event) -> None:
        try:
            data = self._connection.send(event)
        except LocalProtocolError as error:
            raise ConnectionFailed("the WebSocket is closed") from error
        await self._tunnel.write(data)


def accept(request: Request, protocols: Sequence[str], speak: Callable[[WebSocket], Awaitable[None]]) -> Response:
    """Return the response that changes to WebSocket, with the first of the client's protocols that is in `protocols`.

    An empty protocol in `protocols` is for clients that name none.
    A request that can't be answered so gets 400, with what is wrong in plain text.
    """
    headers = request.headers
    key = headers.get("sec-websocket-key", "")
    offered = [each.strip() for each in headers.get("sec-websocket-protocol", "").split(",")]
    chosen = next((each for each in offered if each in protocols), None)
    if (
        request.upgrade != "websocket"
        or request.method != "GET"
        or headers.get("sec-websocket-version") != "13"
        or not key
    ):
        return _refused("a WebSocket is asked for by GET, in version 13 and with a key")
    if chosen is None:
        return _refused(
            f"none of the protocols {', '.join(offered)} is spoken here, but {', '.join(filter(None, protocols))}"
        )
    answer = _answer(key)

    async def begin(tunnel: Tunnel) -> None:
        socket = WebSocket(tunnel, chosen)
        await speak(socket)
        await socket.close()

    agreed = {"upgrade": "websocket", "sec-websocket-accept": answer}
    if chosen:
        agreed["sec-websocket-protocol"] = chosen
    return Response(101, agreed, tunnel=begin)


def offer(protocols: Sequence[str]) -> tuple[dict[str, str], str]:
    """Return the headers of a client's request for a WebSocket, and its key for `agreed_protocol`."""
    key = base64.b64encode(os.urandom(16)).decode()
    return {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": key,
        "sec-websocket-protocol": ", ".join(protocols),
    }, key


def agreed_protocol(response: Response, key: str, protocols: Sequence[str]) -> str:
    """Return the protocol that a server has chosen in its answer to `offer`. Raises ConnectionFailed."""
    chosen = response.headers.get("sec-websocket-protocol", "")
    if response.headers.get("sec-websocket-accept") != _answer(key) or chosen not in protocols:
        raise ConnectionFailed(f"the server did not accept a WebSocket with one of {', '.join(protocols)}")
    return chosen


def _answer(key: str) -> str:
    """Return the header with which a server proves that it has read a client's key."""
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()


async def send_while_open(socket: WebSocket, sending: Coroutine[Any, Any, None]) -> None:
    """Run `sending` until it returns or the client closes the socket. Messages of the client are ignored."""
    tasks = [asyncio.create_task(each) for each in (_quiet(sending), _quiet(_listen(socket)))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _quiet(work: Coroutine[Any, Any, None]) -> None:
    with suppress(ConnectionFailed):  # the client has disconnected
        await work


async def _listen(socket: WebSocket) -> None:
    while await socket.receive() is not None:
        pass


def _refused(why: str) -> Response:
    return Response.plain(400, f"{why}\n")
