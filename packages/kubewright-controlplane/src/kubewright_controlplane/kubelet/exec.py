"""Exec and attach sessions: the protocol of `kubectl exec` and `kubectl attach` over a WebSocket.

The first byte of each message is its channel: 0 is standard input, 1 and 2 are the outputs, 3 is the exit (a Status), 4
is the size of the terminal. In version 5 of the protocol, 255 closes a channel.

Follows k8s.io/apimachinery pkg/util/remotecommand, k8s.io/kubelet pkg/cri/streaming/remotecommand, and KEP-4006.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kubewright.machinery.errors import ConnectionFailed
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.kubelet.process import Process

if TYPE_CHECKING:
    from kubewright.http.websocket import WebSocket

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")

_STDIN, _ERROR, _RESIZE, _CLOSE = 0, 3, 4, 255
_BUFFER: Final = 1 << 20
"""Bytes of output that may wait for a client. With more, the process has to wait."""


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


class _Size(msgspec.Struct, rename="pascal"):
    width: int
    height: int


class Channels:
    """The channels between a client and one process."""

    def __init__(self, socket: WebSocket, options: ExecOptions) -> None:
        self.options = options
        self._socket = socket
        self._waiting: list[bytes] = []
        self._size = 0
        """The bytes of output that are not sent yet."""
        self._pending = asyncio.Event()
        self._ended = False
        self._process: Process | None = None
        self._is_paused = False

    def output(self, fd: int, data: bytes) -> None:
        """Take output of the process."""
        if data and (self.options.stdout if fd == 1 else self.options.stderr):
            self._waiting.append(bytes((fd,)) + data)
            self._size += len(data)
            self._pending.set()
            self._throttle()

    def _throttle(self) -> None:
        """Let the process wait while the client does not read its output."""
        is_full = self._size > _BUFFER
        if self._process is None or is_full == self._is_paused:
            return
        self._is_paused = is_full
        if is_full:
            self._process.pause_output()
        else:
            self._process.resume_output()

    async def serve(self, process: Process, ended: asyncio.Future[int]) -> int | None:
        """Carry messages until the process exits. Returns its exit status; None if the client disconnected before."""
        self._process = process
        self._throttle()
        reading = asyncio.create_task(self._read(process))
        sending = asyncio.create_task(self._send())
        try:
            either: set[asyncio.Future[Any]] = {ended, reading, sending}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                return None
            self._ended = True
            self._pending.set()
            await sending
            return ended.result()
        except ConnectionFailed:
            return None
        finally:
            self._waiting, self._size = [], 0
            self._throttle()
            self._process = None
            reading.cancel()
            sending.cancel()
            await asyncio.gather(reading, sending, return_exceptions=True)

    async def open(self) -> None:
        """Send an empty message, by which the client knows that it is connected."""
        first = 1 if self.options.stdout else 2 if self.options.stderr else _ERROR
        await self._socket.send(bytes((first,)))

    async def close(self, status: JSONObject) -> None:
        """Send the Status of the session."""
        await self._socket.send(bytes((_ERROR,)) + msgspec.json.encode(status))

    async def _read(self, process: Process) -> None:
        """Read until the client closes the connection."""
        while (message := await self._socket.receive()) is not None:
            if not message:
                continue
            channel, data = message[0], message[1:]
            if channel == _STDIN and self.options.stdin and data:
                await process.write(data)
            elif channel == _RESIZE and self.options.terminal:
                size = msgspec.json.decode(data, type=_Size)
                process.resize(size.width, size.height)
            elif channel == _CLOSE and data == bytes((_STDIN,)) and self.options.stdin:
                process.close_input()

    async def _send(self) -> None:
        """Send until the process has exited and all of its output is sent."""
        while not (self._ended and not self._waiting):
            await self._pending.wait()
            self._pending.clear()
            messages, self._waiting = self._waiting, []
            for message in messages:
                await self._socket.send(message)
                self._size -= len(message) - 1
                self._throttle()


def exit_status(code: int) -> JSONObject:
    """Return the Status of an exit code, as a kubelet sends it."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failure(message: str) -> JSONObject:
    """Return the Status of a session that could not start."""
    return {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}
