"""Port forwarding: the protocol of `kubectl port-forward`, SPDY inside a WebSocket.

For each connection the client opens two streams with the same request ID: the first carries errors, the second the
bytes.

Follows k8s.io/kubelet pkg/cri/streaming/portforward and KEP-4006.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kubewright.http.spdy import Data, Frame, Opened, Ping, Session
from kubewright.machinery.errors import ConnectionFailed
from kubewright_controlplane.ports import process_port

if TYPE_CHECKING:
    from kubewright.http.websocket import WebSocket

PROTOCOLS: Final = ("SPDY/3.1+portforward.k8s.io",)
_CHUNK: Final = 64 << 10


class PortForward:
    """The connections of one client to the process at one address."""

    def __init__(self, socket: WebSocket, address: str) -> None:
        self._socket = socket
        self._address = address
        self._session = Session()
        self._error_streams: dict[str, int] = {}
        """Error streams, by request ID."""
        self._writers: dict[int, asyncio.StreamWriter] = {}
        """Writers to the ports of the Pod, by data stream."""
        self._answering: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Serve until the client closes the connection, or breaks the protocol."""
        try:
            while (message := await self._socket.receive()) is not None:
                for frame in self._session.receive(message):
                    await self._take(frame)
        except (ConnectionFailed, ValueError):
            pass  # the client has disconnected
        finally:
            for writer in self._writers.values():
                writer.transport.abort()
            for task in self._answering:
                task.cancel()
            await asyncio.gather(*self._answering, return_exceptions=True)

    async def _take(self, frame: Frame) -> None:
        if isinstance(frame, Opened):
            await self._open(frame)
        elif isinstance(frame, Ping):
            await self._socket.send(self._session.pong(frame))
        elif isinstance(frame, Data):
            await self._carry(frame)
        elif (writer := self._writers.pop(frame.stream, None)) is not None:
            writer.transport.abort()

    async def _open(self, opened: Opened) -> None:
        await self._socket.send(self._session.reply(opened.stream))
        number = opened.headers.get("requestid", "")
        if opened.headers.get("streamtype") == "error":
            self._error_streams[number] = opened.stream
            return
        errors, port = self._error_streams.pop(number, None), opened.headers.get("port", "")
        if errors is None or not port.isdecimal():
            raise ValueError("the error stream of a connection must come first, and the data stream must have a port")
        try:
            reader, writer = await asyncio.open_connection(self._address, process_port(int(port)))
        except OSError as error:
            message = f"failed to connect to port {port} of the Pod, at {self._address}: {error.strerror or error}"
            await self._end(opened.stream, errors, message)
            return
        self._writers[opened.stream] = writer
        task = asyncio.create_task(self._answer(opened.stream, errors, reader), name=f"port-forward to {port}")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _carry(self, data: Data) -> None:
        """Send to the process. Waits while the process does not read."""
        writer = self._writers.get(data.stream)
        if writer is None:
            return
        with suppress(OSError):  # the reader of the connection notices the end
            writer.write(data.data)
            await writer.drain()
            if data.ended and writer.can_write_eof():
                writer.write_eof()

    async def _answer(self, stream: int, errors: int, reader: asyncio.StreamReader) -> None:
        """Send to the client until the process closes the connection."""
        with suppress(ConnectionFailed):  # the client has disconnected, and `serve` ends too
            message = ""
            try:
                while chunk := await reader.read(_CHUNK):
                    await self._socket.send(self._session.data(stream, chunk))
            except OSError as error:
                message = f"lost connection to the Pod: {error.strerror or error}"
            await self._end(stream, errors, message)

    async def _end(self, stream: int, errors: int, message: str) -> None:
        await self._socket.send(self._session.data(errors, message.encode(), end=True))
        await self._socket.send(self._session.data(stream, b"", end=True))
