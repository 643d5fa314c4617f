"""A WebSocket client for the URLs of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)

from kubewright.client._auth import pair_of
from kubewright.client._config import Config
from kubewright.client._tls import client_context


class WebSocketClient:
    """One WebSocket, or the response that refused it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._connection = WSConnection(ConnectionType.CLIENT)
        self._events: list[Event] = []
        self.status = 0
        self.headers: dict[str, str] = {}
        self.protocol: str | None = None
        self.error = ""
        """The body of a refusal."""

    def ask(self, request: Request) -> None:
        self.writer.write(self._connection.send(request))

    async def open(self) -> None:
        answer = await self._event()
        if isinstance(answer, AcceptConnection):
            self.status, self.protocol = 101, answer.subprotocol
            self.headers = {name.decode().lower(): value.decode() for name, value in answer.extra_headers}
        else:
            assert isinstance(answer, RejectConnection)
            self.status = answer.status_code
            while isinstance(body := await self._event(), RejectData) and not self.error.endswith("\n"):
                self.error += body.data.decode()
                if body.body_finished:
                    break

    def send(self, message: bytes | str) -> None:
        """Send a message: text or binary by its type."""
        event: Event = TextMessage(data=message) if isinstance(message, str) else BytesMessage(data=message)
        self.writer.write(self._connection.send(event))

    async def receive(self) -> bytes | str | None:
        """Return the next message: text or binary by its type; None when the server has closed."""
        pieces: list[bytes | str] = []
        while True:
            event = await self._event()
            if event is None or isinstance(event, CloseConnection):
                return None
            if isinstance(event, TextMessage | BytesMessage):
                pieces.append(event.data if isinstance(event.data, str) else bytes(event.data))
                if event.message_finished:
                    empty: bytes | str = "" if isinstance(pieces[0], str) else b""
                    return empty.join(pieces)  # type: ignore[arg-type]

    async def _event(self) -> Event | None:
        while not self._events:
            data = await self._reader.read(65536)
            if not data:
                return None  # also in place of the body of a refusal without a length
            self._connection.receive_data(data)
            self._events.extend(self._connection.events())
        return self._events.pop(0)


@asynccontextmanager
async def websocket(
    config: Config, target: str, protocols: Sequence[str] = (), *, origin: str | None = "http://test"
) -> AsyncGenerator[WebSocketClient]:
    """Open a WebSocket as the user of `config`."""
    address = urlsplit(config.server)
    context = client_context(config, pair_of(config))
    reader, writer = await asyncio.open_connection(address.hostname, address.port, ssl=context)
    client = WebSocketClient(reader, writer)
    headers = [(b"origin", origin.encode())] if origin else []
    if config.token:
        headers.append((b"authorization", f"Bearer {config.token}".encode()))
    client.ask(Request(host=address.netloc, target=target, subprotocols=list(protocols), extra_headers=headers))
    try:
        await client.open()
        yield client
    finally:
        writer.close()
