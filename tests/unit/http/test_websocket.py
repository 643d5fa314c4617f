"""WebSockets, tested with another implementation as the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    TextMessage,
)
from wsproto.events import (
    Request as Opening,
)

from kubewright.http.message import Handler, Request, Response
from kubewright.http.server import Server
from kubewright.http.websocket import WebSocket, accept
from kubewright.machinery.errors import ConnectionFailed

Serve = Callable[..., Awaitable[Server]]


class Client:
    """wsproto's client on a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self._connection = WSConnection(ConnectionType.CLIENT)
        self._events: list[Event] = []

    def send(self, event: Event) -> None:
        self.writer.write(self._connection.send(event))

    def send_all(self, *events: Event) -> None:
        self.writer.write(b"".join(map(self._connection.send, events)))

    async def event(self) -> Event:
        while not self._events:
            data = await self._reader.read(65536)
            assert data, "the server closed"
            self._connection.receive_data(data)
            self._events.extend(self._connection.events())
        return self._events.pop(0)


@asynccontextmanager
async def connected(port: int, protocols: list[str]) -> AsyncIterator[Client]:
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    client.send(Opening(host="x", target="/", subprotocols=protocols))
    try:
        yield client
    finally:
        client.writer.close()


def speaking(speak: Callable[[WebSocket], Awaitable[None]]) -> Handler:
    async def handler(request: Request) -> Response:
        return accept(request, ["v5", "v4"], speak)

    return handler


async def echo(socket: WebSocket) -> None:
    while (message := await socket.receive()) is not None:
        await socket.send(socket.protocol.encode() + b":" + message)


async def test_messages_go_both_ways_in_the_negotiated_protocol(serve: Serve) -> None:
    server = await serve(speaking(echo))
    async with connected(server.port, ["v6", "v4", "v5"]) as client:
        opened = await client.event()
        assert isinstance(opened, AcceptConnection)
        assert opened.subprotocol == "v4"
        client.send(BytesMessage(data=b"\0\xff"))
        assert await client.event() == BytesMessage(data=bytearray(b"v4:\0\xff"))
        client.send(TextMessage(data="in ", message_finished=False))
        client.send(Ping(payload=b"?"))
        client.send(TextMessage(data="pieces"))
        assert await client.event() == Pong(payload=bytearray(b"?"))
        assert await client.event() == BytesMessage(data=bytearray(b"v4:in pieces"))


async def test_either_end_may_close(serve: Serve) -> None:
    server = await serve(speaking(echo))
    async with connected(server.port, ["v5"]) as client:
        await client.event()
        client.send(CloseConnection(code=1000))
        assert isinstance(await client.event(), CloseConnection)

    async def leave(socket: WebSocket) -> None:
        await socket.send(b"bye")

    server = await serve(speaking(leave))
    async with connected(server.port, ["v5"]) as client:
        await client.event()
        assert await client.event() == BytesMessage(data=bytearray(b"bye"))
        assert await client.event() == CloseConnection(code=1000, reason="")


async def test_a_client_with_another_protocol_gets_the_supported_ones(serve: Serve) -> None:
    server = await serve(speaking(echo))
    async with connected(server.port, ["v1"]) as client:
        refused = await client.event()
        assert isinstance(refused, RejectConnection)
        assert refused.status_code == 400
        said = await client.event()
        assert isinstance(said, RejectData)
        assert said.data == b"none of the protocols v1 is spoken here, but v5, v4\n"


async def test_a_protocol_violation_ends_the_connection(serve: Serve) -> None:
    server = await serve(speaking(echo))
    async with connected(server.port, ["v5"]) as client:
        await client.event()
        client.writer.write(b"\x83\x80\0\0\0\0")  # an unknown opcode
        closed = await client.event()
        assert isinstance(closed, CloseConnection)
        assert closed.code == 1002


async def test_a_client_that_disconnects_without_a_close_message_is_noticed(serve: Serve) -> None:
    ended = asyncio.Event()

    async def listen(socket: WebSocket) -> None:
        try:
            await socket.receive()
        finally:
            ended.set()

    server = await serve(speaking(listen))
    async with connected(server.port, ["v5"]) as client:
        await client.event()
    await ended.wait()


async def test_nothing_can_be_sent_after_the_end(serve: Serve) -> None:
    refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def speak(socket: WebSocket) -> None:
        assert await socket.receive() is None
        try:
            await socket.send(b"one more thing")
        except ConnectionFailed as error:
            refused.set_result(str(error))

    server = await serve(speaking(speak))
    async with connected(server.port, ["v5"]) as client:
        await client.event()
        client.send(CloseConnection(code=1000))
        assert await refused == "the WebSocket is closed"


async def test_others_get_their_turn_in_a_flood_of_frames(serve: Serve) -> None:
    order: list[str] = []

    async def speak(socket: WebSocket) -> None:
        asyncio.get_running_loop().call_soon(order.append, "other")
        while (message := await socket.receive()) != b"last":
            assert message == b""
        order.append("end")

    server = await serve(speaking(speak))
    async with connected(server.port, ["v5"]) as client:
        assert isinstance(await client.event(), AcceptConnection)
        client.send_all(*[BytesMessage(data=b"")] * 5000, BytesMessage(data=b"last"))
        await client.event()
    assert order == ["other", "end"]
