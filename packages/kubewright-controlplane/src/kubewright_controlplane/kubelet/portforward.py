"""Port forwarding: connections of a client to ports of a Pod, over SPDY or a WebSocket.

Over SPDY, which may be tunneled through a WebSocket, the client opens two streams for each connection, with the same
request ID: one for errors, one for the bytes. Over a WebSocket alone, the client names the ports in its request. Each
of them has one connection and two channels: bytes, and errors. The first message of each channel is the port.

Follows k8s.io/cri-streaming pkg/streaming/portforward and KEP-4006.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kubewright.http.spdy import Connection, Data, Frame, Opened, Reset
from kubewright.machinery.errors import ConnectionFailed
from kubewright_controlplane.common.budget import SocketBudget
from kubewright_controlplane.kubelet.channelsocket import ChannelSocket
from kubewright_controlplane.ports import process_port

if TYPE_CHECKING:
    from kubewright.http.websocket import WebSocket

SPDY_PROTOCOLS: Final = ("portforward.k8s.io",)
TUNNEL: Final = "SPDY/3.1+portforward.k8s.io"
"""The WebSocket protocol whose messages are the bytes of a SPDY connection."""
WEBSOCKET_PROTOCOLS: Final = (TUNNEL, "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "")
_CHUNK: Final = 64 << 10
_MOST_PORTS: Final = 127
"""The channels of a WebSocket have one byte, and each port has two of them."""


def ports_of(query: Mapping[str, Sequence[str]]) -> list[int]:
    """Return the ports in a query that an API server sends to a kubelet. Raises ValueError for anything else."""
    texts = [each for text in query.get("port", ()) for each in text.split(",")]
    if not texts:
        raise ValueError('query parameter "port" is required')
    if len(texts) > _MOST_PORTS:
        raise ValueError(f'query parameter "port" may name {_MOST_PORTS} ports, not {len(texts)}')
    return [_port(text) for text in texts]


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text[:6]) <= 0xFFFF:
        raise ValueError(f'unable to parse "{text[:20]}" as a port')
    return int(text)


async def _connect(address: str, port: int, budget: SocketBudget) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a port of a Pod, with a socket of the budget. Raises ConnectionFailed with a text for the client."""
    if not budget.take(1):
        raise ConnectionFailed(f"failed to connect to port {port} of the Pod: too many connections are forwarded")
    try:
        return await asyncio.open_connection(address, process_port(port))
    except BaseException as error:
        budget.free(1)
        if not isinstance(error, OSError):
            raise
        message = f"failed to connect to port {port} of the Pod, at {address}: {error.strerror or error}"
        raise ConnectionFailed(message) from error


class PortForward:
    """The connections of one client to the process at one address, over SPDY."""

    def __init__(self, connection: Connection, address: str, budget: SocketBudget) -> None:
        self._connection = connection
        self._address = address
        self._budget = budget
        self._halves: dict[str, dict[str, Opened]] = {}
        """The first stream of pairs that are not complete, by request ID."""
        self._unpaired: dict[int, str] = {}
        """The request IDs of these streams."""
        self._writers: dict[int, asyncio.StreamWriter] = {}
        """Writers to the ports of the Pod, by data stream."""
        self._answering: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Serve until the client closes the connection, or breaks the protocol."""
        try:
            async for frame in self._connection.frames():
                await self._take(frame)
        except ConnectionFailed:
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
        elif isinstance(frame, Data):
            await self._carry(frame)
        else:
            self._cancel(frame)

    async def _open(self, opened: Opened) -> None:
        """Take a stream, and connect to the port when it completes a pair."""
        kind, port = opened.headers.get("streamtype", ""), 0
        with suppress(ValueError):
            port = _port(opened.headers.get("port", ""))
        number = _request_id(opened, kind)
        if not port or kind not in ("error", "data") or kind in self._halves.get(number, {}):
            await self._connection.reset(opened.stream)
            return
        await self._connection.accept(opened.stream)
        pair = self._halves.setdefault(number, {})
        pair[kind] = opened
        self._unpaired[opened.stream] = number
        if len(pair) == 2:
            self._drop_pair(number)
            await self._start(pair["data"].stream, pair["error"].stream, port)

    async def _start(self, stream: int, errors: int, port: int) -> None:
        try:
            reader, writer = await _connect(self._address, port, self._budget)
        except ConnectionFailed as error:
            await self._end(stream, errors, str(error))
            return
        self._writers[stream] = writer
        task = asyncio.create_task(self._answer(stream, errors, reader), name=f"port-forward to {port}")
        self._answering.add(task)
        task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        self._budget.free(1)

    async def _carry(self, data: Data) -> None:
        """Send to the process. Waits while the process does not read."""
        writer = self._writers.get(data.stream)
        if writer is not None:
            await _write(writer, data.data, ended=data.ended)

    def _cancel(self, reset: Reset) -> None:
        if (writer := self._writers.pop(reset.stream, None)) is not None:
            writer.transport.abort()
        if reset.stream in self._unpaired:
            self._drop_pair(self._unpaired[reset.stream])

    def _drop_pair(self, number: str) -> None:
        for each in self._halves.pop(number).values():
            del self._unpaired[each.stream]

    async def _answer(self, stream: int, errors: int, reader: asyncio.StreamReader) -> None:
        """Send to the client until the process closes the connection."""
        with suppress(ConnectionFailed):  # the client has disconnected, and `serve` ends too
            message = ""
            try:
                while chunk := await reader.read(_CHUNK):
                    await self._connection.send(stream, chunk)
            except OSError as error:
                message = f"lost connection to the Pod: {error.strerror or error}"
            if (writer := self._writers.pop(stream, None)) is not None:
                writer.close()
            await self._end(stream, errors, message)

    async def _end(self, stream: int, errors: int, message: str) -> None:
        await self._connection.send(errors, message.encode(), end=True)
        await self._connection.send(stream, b"", end=True)


def _request_id(opened: Opened, kind: str) -> str:
    """Return the request ID of a stream. Old clients send none: they open the data stream right after the other."""
    number = opened.headers.get("requestid")
    return number if number else f"stream {opened.stream - 2 if kind == 'data' else opened.stream}"


async def _write(writer: asyncio.StreamWriter, data: bytes, *, ended: bool) -> None:
    """Send to a process. Waits while it does not read."""
    with suppress(OSError):  # the reader of the connection notices the end
        writer.write(data)
        await writer.drain()
        if ended and writer.can_write_eof():
            writer.write_eof()


async def _done(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)


class WebSocketForward:
    """One connection to each of some ports of a Pod, over the channels of a WebSocket."""

    def __init__(self, socket: WebSocket, address: str, ports: Sequence[int], budget: SocketBudget) -> None:
        self._channels = ChannelSocket(socket)
        self._address = address
        self._budget = budget
        self._ports = ports
        loop = asyncio.get_running_loop()
        self._writers: list[asyncio.Future[asyncio.StreamWriter | None]] = [loop.create_future() for _ in ports]
        """Writers to the ports of the Pod; None for a port that is closed."""

    async def serve(self) -> None:
        """Serve until the client disconnects, or all processes have closed their connections."""
        answers = [asyncio.create_task(self._answer(*each)) for each in enumerate(self._ports)]
        reading = asyncio.create_task(self._read())
        try:
            everything = asyncio.create_task(_done(answers))
            await asyncio.wait({reading, everything}, return_when=asyncio.FIRST_COMPLETED)
            everything.cancel()
        finally:
            for task in (reading, *answers):
                task.cancel()
            await asyncio.gather(reading, *answers, return_exceptions=True)
            for each in self._writers:
                if each.done() and (writer := each.result()) is not None:
                    writer.transport.abort()

    async def _read(self) -> None:
        """Carry messages until the client disconnects."""
        async for channel, data in self._channels.receive():
            index, is_error = divmod(channel, 2)
            if is_error or not 0 <= index < len(self._writers):
                continue
            writer = await asyncio.shield(self._writers[index])
            if writer is not None and not writer.is_closing():
                await _write(writer, data, ended=False)

    async def _answer(self, index: int, port: int) -> None:
        """Send to the client until the process closes the connection."""
        with suppress(ConnectionFailed):  # the client has disconnected, and `serve` ends too
            for channel in (2 * index, 2 * index + 1):
                await self._channels.send(channel, struct.pack("<H", port))
            try:
                reader, writer = await _connect(self._address, port, self._budget)
            except ConnectionFailed as error:
                self._writers[index].set_result(None)
                await self._channels.send(2 * index + 1, str(error).encode())
                return
            try:
                self._writers[index].set_result(writer)
                with suppress(OSError):
                    while chunk := await reader.read(_CHUNK):
                        await self._channels.send(2 * index, chunk)
            finally:
                writer.close()
                self._budget.free(1)
