"""Somebody in a container: what `kubectl exec` and `kubectl attach` speak over a WebSocket.

The first byte of each message is its channel: 0 what is typed, 1 and 2 what is written, 3 how it ended (a Status), 4
the size of the terminal; and in version 5 of the protocol 255, that one of them ends.

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
from kubewright_controlplane.kubelet.processes.process import Process

if TYPE_CHECKING:
    from kubewright.http.websocket import WebSocket

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")

_STDIN, _ERROR, _RESIZE, _CLOSE = 0, 3, 4, 255
_MOST: Final = 1 << 20
"""Bytes that may wait for a client; with more, the process is made to wait."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """Which channels there are."""

    stdin: bool
    stdout: bool
    stderr: bool
    terminal: bool

    @classmethod
    def of(cls, query: Mapping[str, Sequence[str]]) -> Wishes:
        """What a request's query says, in the words that API servers use to kubelets."""
        names = ("input", "output", "error", "tty")
        stdin, stdout, stderr, tty = (query.get(name, ["0"])[0] == "1" for name in names)
        return cls(stdin, stdout, stderr and not tty, tty)


class _Size(msgspec.Struct, rename="pascal"):
    width: int
    height: int


class Channels:
    """The channels between a client and one process."""

    def __init__(self, socket: WebSocket, wishes: Wishes) -> None:
        self.wishes = wishes
        self._socket = socket
        self._waiting: list[bytes] = []
        self._size = 0
        self._news = asyncio.Event()
        self._ended = False

    def hear(self, fd: int, data: bytes) -> None:
        """Take what the process writes to a file descriptor."""
        if data and (self.wishes.stdout if fd == 1 else self.wishes.stderr):
            self._waiting.append(bytes((fd,)) + data)
            self._size += len(data)
            self._news.set()

    async def serve(self, process: Process, ended: asyncio.Future[int]) -> int | None:
        """Carry messages until the process has ended, with its exit status; None when the client left before."""
        reading = asyncio.create_task(self._read(process))
        sending = asyncio.create_task(self._send(process))
        try:
            either: set[asyncio.Future[Any]] = {ended, reading, sending}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                return None
            self._ended = True
            self._news.set()
            await sending
            return ended.result()
        except ConnectionFailed:
            return None
        finally:
            reading.cancel()
            sending.cancel()
            await asyncio.gather(reading, sending, return_exceptions=True)

    async def greet(self) -> None:
        """An empty message tells the client that it is connected."""
        first = 1 if self.wishes.stdout else 2 if self.wishes.stderr else _ERROR
        await self._socket.send(bytes((first,)))

    async def tell(self, status: JSONObject) -> None:
        """How it ended."""
        await self._socket.send(bytes((_ERROR,)) + msgspec.json.encode(status))

    async def _read(self, process: Process) -> None:
        """Until the client has closed."""
        while (message := await self._socket.receive()) is not None:
            if not message:
                continue
            channel, data = message[0], message[1:]
            if channel == _STDIN and self.wishes.stdin and data:
                await process.write(data)
            elif channel == _RESIZE and self.wishes.terminal:
                size = msgspec.json.decode(data, type=_Size)
                process.resize(size.width, size.height)
            elif channel == _CLOSE and data == bytes((_STDIN,)) and self.wishes.stdin:
                process.close_input()

    async def _send(self, process: Process) -> None:
        """Until the process has ended and all that it wrote is sent."""
        while not (self._ended and not self._waiting):
            await self._news.wait()
            self._news.clear()
            too_much = self._size > _MOST
            if too_much:
                process.pause_output()
            messages, self._waiting, self._size = self._waiting, [], 0
            for message in messages:
                await self._socket.send(message)
            if too_much:
                process.resume_output()


def outcome(code: int) -> JSONObject:
    """The Status of an exit status, as a kubelet sends it."""
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
    """The Status of what could not be begun."""
    return {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}
