"""Exec and attach sessions: a client connected to one process."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from kubewright.machinery.errors import ConnectionFailed
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.kubelet.process import Process
from kubewright_controlplane.kubelet.remotecommand import ExecOptions, ExecTransport, Resized, StdinClosed

_BUFFER: Final = 1 << 20
"""Bytes of output that may wait for a client. With more, the process has to wait."""


class Channels:
    """The channels between a client and one process."""

    def __init__(self, transport: ExecTransport, options: ExecOptions) -> None:
        self.options = options
        self._transport = transport
        self._is_open = False
        self._waiting: list[tuple[int, bytes]] = []
        self.unsent = 0
        """The bytes of output that are not sent yet."""
        self._pending = asyncio.Event()
        self._ended = False
        self._process: Process | None = None
        self._is_paused = False
        self._is_released = False

    def output(self, fd: int, data: bytes) -> None:
        """Take output of the process."""
        if data and not self._is_released and (self.options.stdout if fd == 1 else self.options.stderr):
            self._waiting.append((fd, data))
            self.unsent += len(data)
            self._pending.set()
            self._throttle()

    def _throttle(self) -> None:
        """Let the process wait while the client does not read its output."""
        is_full = self.unsent > _BUFFER
        if self._process is None or is_full == self._is_paused:
            return
        self._is_paused = is_full
        if is_full:
            self._process.pause_output()
        else:
            self._process.resume_output()

    async def serve(self, process: Process, ended: asyncio.Future[int]) -> int | None:
        """Carry messages until the process exits. Returns its exit status; None if the client disconnected before."""
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
            reading.cancel()
            sending.cancel()
            await asyncio.gather(reading, sending, return_exceptions=True)

    async def open(self, process: Process | None = None) -> None:
        """Connect the client to a process, which waits if the client takes long.

        Raises ConnectionFailed if the client does not open its channels.
        """
        self._is_open = True
        self._process = process
        self._throttle()
        await self._transport.open()

    def release(self) -> None:
        """Take no more output, and let the process continue."""
        self._is_released = True
        self._waiting, self.unsent = [], 0
        self._throttle()
        self._process = None

    async def close(self, status: JSONObject) -> None:
        """Send the Status of the session, also of a session that could not start."""
        if not self._is_open:
            await self.open()
        await self._transport.finish(status)

    async def _read(self, process: Process) -> None:
        """Read until the client closes the connection."""
        async for message in self._transport.receive():
            if isinstance(message, Resized):
                if self.options.terminal:
                    process.resize(message.width, message.height)
            elif isinstance(message, StdinClosed):
                if self.options.stdin:
                    process.close_input()
            elif self.options.stdin:
                await process.write(message)

    async def _send(self) -> None:
        """Send until the process has exited and all of its output is sent."""
        while not (self._ended and not self._waiting):
            await self._pending.wait()
            self._pending.clear()
            messages, self._waiting = self._waiting, []
            for fd, data in messages:
                await self._transport.send(fd, data)
                self.unsent -= len(data)
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
