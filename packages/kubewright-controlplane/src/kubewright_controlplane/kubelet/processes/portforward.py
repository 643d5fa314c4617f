"""Ports of a Pod for somebody elsewhere: what `kubectl port-forward` speaks, SPDY within a WebSocket.

For each connection the client opens two streams that bear one number: the first is told what goes wrong, the second
carries the bytes.

Follows k8s.io/kubelet pkg/cri/streaming/portforward and KEP-4006.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kubewright.http.spdy import Data, Frame, Opened, Ping, Session
from kubewright.machinery.errors import ConnectionFailed
from kubewright_controlplane.kubelet.processes.ports import port_of_process

if TYPE_CHECKING:
    from kubewright.http.websocket import WebSocket

PROTOCOLS: Final = ("SPDY/3.1+portforward.k8s.io",)
_CHUNK: Final = 64 << 10


class PortForward:
    """Connections to the process at one address, for one client."""

    def __init__(self, socket: WebSocket, address: str) -> None:
        self._socket = socket
        self._address = address
        self._session = Session()
        self._complaints: dict[str, int] = {}
        """The streams that are told what goes wrong, by the number of their connection."""
        self._writers: dict[int, asyncio.StreamWriter] = {}
        """Of the connections, by the stream that carries their bytes."""
        self._answering: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Until the client has closed, or speaks something else."""
        try:
            while (message := await self._socket.receive()) is not None:
                for frame in self._session.receive(message):
                    await self._take(frame)
        except (ConnectionFailed, ValueError):
            pass  # there is nobody left to tell
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
            self._complaints[number] = opened.stream
            return
        complaints, port = self._complaints.pop(number, None), opened.headers.get("port", "")
        if complaints is None or not port.isdecimal():
            raise ValueError("a stream for bytes comes after the one for errors, and names its port")
        try:
            reader, writer = await asyncio.open_connection(self._address, port_of_process(int(port)))
        except OSError as error:
            why = f"failed to connect to port {port} of the Pod, at {self._address}: {error.strerror or error}"
            await self._end(opened.stream, complaints, why)
            return
        self._writers[opened.stream] = writer
        task = asyncio.create_task(self._answer(opened.stream, complaints, reader), name=f"port-forward to {port}")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _carry(self, data: Data) -> None:
        """To the process. One that does not read holds up the client."""
        writer = self._writers.get(data.stream)
        if writer is None:
            return
        with suppress(OSError):  # the connection's own reader sees its end
            writer.write(data.data)
            await writer.drain()
            if data.ended and writer.can_write_eof():
                writer.write_eof()

    async def _answer(self, stream: int, complaints: int, reader: asyncio.StreamReader) -> None:
        """From the process, to the end of what it says."""
        with suppress(ConnectionFailed):  # the client has gone: `serve` ends too
            why = ""
            try:
                while chunk := await reader.read(_CHUNK):
                    await self._socket.send(self._session.data(stream, chunk))
            except OSError as error:
                why = f"lost connection to the Pod: {error.strerror or error}"
            await self._end(stream, complaints, why)

    async def _end(self, stream: int, complaints: int, why: str) -> None:
        await self._socket.send(self._session.data(complaints, why.encode(), end=True))
        await self._socket.send(self._session.data(stream, b"", end=True))
