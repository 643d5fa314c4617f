"""The protocols of `kubectl exec` and `kubectl attach`, over a WebSocket or SPDY.

Over a WebSocket, each message has a channel: 0 is standard input, 1 and 2 are the outputs, 3 is the exit, 4 is the size
of the terminal. In version 5, the message 255 0 ends standard input.

Over SPDY, the client opens one stream for each channel that it has asked for, and one for the exit. Versions 1 and 2
have no stream for the size of the terminal. Versions 1 to 3 report an error as text, version 4 reports a Status.

Follows k8s.io/apimachinery pkg/util/remotecommand, k8s.io/cri-streaming pkg/streaming/remotecommand, and KEP-4006.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from kubewright.http import spdy
from kubewright.http.spdy import Connection, Data, Opened
from kubewright.machinery.errors import ConnectionFailed
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.kubelet.channelsocket import ChannelSocket

if TYPE_CHECKING:
    from kubewright.http.websocket import WebSocket

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
"""The channels."""

WEBSOCKET_PROTOCOLS: Final = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "channel.k8s.io",
    "base64.channel.k8s.io",
    "",
)
SPDY_PROTOCOLS: Final = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")

_STREAMS: Final = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
_CREATION_SECONDS: Final = 30.0
"""Seconds that a client has to open its streams."""
_EARLY_BYTES: Final = 1 << 20
"""Bytes that a client may send before it has opened its last stream."""
_FRAME_BYTES: Final = 100
"""Bytes of a frame that waits, beyond its data."""
_LONGEST_SIZE: Final = 1024
"""The last bytes of a message in which a size of the terminal is looked for."""


@dataclass(frozen=True, slots=True)
class ExecOptions:
    """The channels of a session."""

    stdin: bool
    stdout: bool
    stderr: bool
    terminal: bool

    @classmethod
    def of(cls, query: Mapping[str, Sequence[str]]) -> ExecOptions:
        """Return the options in a query that an API server sends to a kubelet."""
        names = ("input", "output", "error", "tty")
        stdin, stdout, stderr, tty = (query.get(name, ["0"])[0] == "1" for name in names)
        return cls(stdin, stdout, stderr and not tty, tty)


class Resized(msgspec.Struct, rename="pascal"):
    """The client's terminal has this size."""

    width: int
    height: int


class StdinClosed(NamedTuple):
    """The client has ended standard input."""


Message = bytes | Resized | StdinClosed
"""What a client sends: standard input, its end, or a size."""


class ExecTransport(Protocol):
    """Carries one session."""

    async def open(self) -> None:
        """Connect the channels. Raises ConnectionFailed if the client does not."""
        ...

    def receive(self) -> AsyncIterator[Message]:
        """Yield what the client sends, until it disconnects."""
        ...

    async def send(self, channel: int, data: bytes) -> None:
        """Send output. Raises ConnectionFailed if the client has disconnected."""
        ...

    async def finish(self, status: JSONObject) -> None:
        """Send the Status of the session, after its output."""
        ...


class WebSocketTransport:
    """An `ExecTransport` over a WebSocket."""

    def __init__(self, socket: WebSocket, options: ExecOptions) -> None:
        self._channels = ChannelSocket(socket)
        self._options = options
        self._has_status = socket.protocol.startswith(("v4.", "v5."))
        self._has_close = socket.protocol.startswith("v5.")

    async def open(self) -> None:
        """Send an empty message, by which the client knows that it is connected."""
        await self.send(STDOUT if self._options.stdout else STDERR if self._options.stderr else ERROR, b"")

    async def receive(self) -> AsyncIterator[Message]:
        async for channel, data in self._channels.receive():
            if channel == CLOSE and self._has_close:
                if data == bytes((STDIN,)):
                    yield StdinClosed()
            elif channel == STDIN and data:
                yield data
            elif channel == RESIZE and (size := _latest_size(bytearray(data))) is not None:
                yield size

    async def send(self, channel: int, data: bytes) -> None:
        await self._channels.send(channel, data)

    async def finish(self, status: JSONObject) -> None:
        data = _status_data(status, has_status=self._has_status)
        if data:
            await self.send(ERROR, data)


class SPDYTransport:
    """An `ExecTransport` over SPDY."""

    def __init__(self, connection: Connection, protocol: str, options: ExecOptions) -> None:
        self._connection = connection
        self._frames = connection.frames()
        self._version = SPDY_PROTOCOLS[::-1].index(protocol) + 1
        wanted = {ERROR: True, STDIN: options.stdin, STDOUT: options.stdout, STDERR: options.stderr}
        wanted[RESIZE] = options.terminal and self._version >= 3
        self._expected = {channel for channel, is_wanted in wanted.items() if is_wanted}
        self._streams: dict[int, int] = {}
        """Streams, by channel."""
        self._early: list[Data] = []
        """Data that came before the last stream."""
        self._early_bytes = 0

    async def open(self) -> None:
        try:
            async with asyncio.timeout(_CREATION_SECONDS):
                async for frame in self._frames:
                    await self._prepare(frame)
                    if not self._expected:
                        return
        except TimeoutError:
            pass
        raise ConnectionFailed("the client did not open the streams of the session")

    async def _prepare(self, frame: spdy.Frame) -> None:
        if isinstance(frame, Data):
            self._early.append(frame)
            self._early_bytes += _FRAME_BYTES + len(frame.data)
            if self._early_bytes > _EARLY_BYTES:
                raise ConnectionFailed("the client sends data before it has opened its streams")
        elif isinstance(frame, Opened):
            channel = _STREAMS.get(frame.headers.get("streamtype", ""))
            if channel not in self._expected:
                await self._connection.reset(frame.stream)
                return
            self._expected.discard(channel)
            self._streams[channel] = frame.stream
            await self._connection.accept(frame.stream)

    async def receive(self) -> AsyncIterator[Message]:
        unfinished = bytearray()
        for early in self._early:
            for message in self._messages(early, unfinished):
                yield message
        self._early = []
        async for frame in self._frames:
            if isinstance(frame, Opened):
                await self._connection.reset(frame.stream)
            elif isinstance(frame, Data):
                for message in self._messages(frame, unfinished):
                    yield message

    def _messages(self, data: Data, unfinished: bytearray) -> list[Message]:
        """Return what some data means. `unfinished` is the beginning of a size."""
        if data.stream == self._streams.get(RESIZE):
            unfinished += data.data
            size = _latest_size(unfinished)
            return [size] if size is not None else []
        found: list[Message] = []
        if data.stream == self._streams.get(STDIN):
            if data.data:
                found.append(data.data)
            if data.ended:
                found.append(StdinClosed())
        return found

    async def send(self, channel: int, data: bytes) -> None:
        if channel in self._streams:
            await self._connection.send(self._streams[channel], data)

    async def finish(self, status: JSONObject) -> None:
        with suppress(ConnectionFailed):
            for channel in (STDOUT, STDERR):
                if channel in self._streams:
                    await self._connection.send(self._streams[channel], b"", end=True)
            data = _status_data(status, has_status=self._version >= 4)
            if ERROR in self._streams:
                await self._connection.send(self._streams[ERROR], data, end=True)


def _status_data(status: JSONObject, *, has_status: bool) -> bytes:
    """Return what is sent about the exit. Before version 4 this is a message, and nothing after a success."""
    return msgspec.json.encode(status) if has_status else str(status.get("message", "")).encode()


def _latest_size(text: bytearray) -> Resized | None:
    """Remove the complete sizes from the beginning of `text`, and return the last one; None if all are malformed.

    A terminal has one size, so earlier ones do not matter. A client may send millions of them.
    """
    end = text.rfind(b"}") + 1
    complete = bytes(text[max(0, end - _LONGEST_SIZE) : end])
    del text[:end]
    if len(text) > _LONGEST_SIZE:
        text.clear()
    for piece in reversed(complete.split(b"}")[:-1]):
        with suppress(msgspec.MsgspecError):
            return msgspec.json.decode(piece + b"}", type=Resized)
    return None
