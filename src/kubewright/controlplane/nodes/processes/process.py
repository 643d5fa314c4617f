"""One process of a container, with what it writes, in a process group of its own.

Guarantees
    It does not outlive the control plane, nor do those that it started in its group, however the control plane ends.
    When its first process has ended, the rest of its group is killed.
Not guaranteed
    That a process which leaves its group (`setsid`) is found.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

import msgspec

from kubewright.controlplane.nodes.processes import launch, watch
from kubewright.controlplane.nodes.processes.logs import LONGEST

Output = Callable[[str, bytes, bool], None]
"""Takes the stream's name, a line or a part of one, and whether the line ends with it."""

_STREAMS: Final = {1: "stdout", 2: "stderr"}
_LINGERING: Final = 1.0
"""Seconds for what it wrote to be read once it has ended: somebody outside its group may hold its pipes."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to run."""

    arguments: Sequence[str]
    environment: dict[str, str]
    folder: str


class Watcher:
    """Tells `watch` which process groups there are. The program runs from the first of them on."""

    def __init__(self) -> None:
        self._program: subprocess.Popen[bytes] | None = None
        self._groups: set[int] = set()

    def add(self, group: int) -> None:
        """From here on, the death of this process is that of the group."""
        self._groups.add(group)
        if self._program is None or self._program.poll() is not None:
            self._start()
        else:
            self._tell("+", group)

    def remove(self, group: int) -> None:
        self._groups.discard(group)
        self._tell("-", group)

    def close(self) -> None:
        """End the program. Groups that are left are killed."""
        program, self._program = self._program, None
        if program is not None:
            assert program.stdin is not None
            with suppress(BrokenPipeError):
                program.stdin.close()
            program.wait()

    def _start(self) -> None:
        self._program = subprocess.Popen(
            _program(watch), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )
        for group in sorted(self._groups):
            self._tell("+", group)

    def _tell(self, sign: str, group: int) -> None:
        pipe: IO[bytes] | None = self._program.stdin if self._program is not None else None
        if pipe is not None:
            with suppress(BrokenPipeError):  # somebody killed it; the next group starts it anew, and tells of all
                pipe.write(f"{sign}{group}\n".encode())
                pipe.flush()


class Process(asyncio.SubprocessProtocol):
    """A process that runs, or ran. Made by `start`."""

    def __init__(self, output: Output, watcher: Watcher) -> None:
        self._output = output
        self._watcher = watcher
        self._unfinished = {number: bytearray() for number in _STREAMS}
        self._open = set(_STREAMS)
        loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[None] = loop.create_future()
        self._silent: asyncio.Future[None] = loop.create_future()
        self._transport: asyncio.SubprocessTransport | None = None
        self.pid = 0

    @classmethod
    async def start(cls, command: Command, watcher: Watcher, output: Output) -> Process:
        """Raises OSError when no process can be had."""
        loop = asyncio.get_running_loop()
        transport, process = await loop.subprocess_exec(
            lambda: cls(output, watcher), *_program(launch), start_new_session=True, env={}, cwd="/"
        )
        process._transport, process.pid = transport, transport.get_pid()
        watcher.add(process.pid)
        order = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
        order.write(msgspec.json.encode(asdict(command)))
        order.close()
        return process

    async def wait(self) -> int:
        """The exit status once it has ended and what it wrote is read; for a signal 128 and its number."""
        await self._exited
        self.kill()
        self._watcher.remove(self.pid)
        await asyncio.wait({self._silent}, timeout=_LINGERING)
        assert self._transport is not None
        self._transport.close()
        code = self._transport.get_returncode() or 0
        return 128 - code if code < 0 else code

    def send(self, number: int) -> None:
        """Signal the first process, as container runtimes do."""
        if not self._exited.done():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the whole group."""
        with suppress(ProcessLookupError, PermissionError):  # the latter: macOS, for a group of zombies
            os.killpg(self.pid, signal.SIGKILL)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        unfinished = self._unfinished[fd]
        *lines, rest = (bytes(unfinished) + data).split(b"\n")
        for line in lines:
            self._write(fd, line, whole=True)
        while len(rest) > LONGEST:
            self._write(fd, rest[:LONGEST], whole=False)
            rest = rest[LONGEST:]
        self._unfinished[fd] = bytearray(rest)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd not in self._open:
            return
        self._open.remove(fd)
        if self._unfinished[fd]:
            self._output(_STREAMS[fd], bytes(self._unfinished[fd]), False)
        if not self._open:
            self._silent.set_result(None)

    def process_exited(self) -> None:
        if not self._exited.done():
            self._exited.set_result(None)

    def _write(self, fd: int, line: bytes, *, whole: bool) -> None:
        while len(line) > LONGEST:
            self._output(_STREAMS[fd], line[:LONGEST], False)
            line = line[LONGEST:]
        self._output(_STREAMS[fd], line, whole)


def _program(module: Any) -> list[str]:
    """A program of ours, run by an interpreter that reads nothing but it."""
    return [sys.executable, "-I", "-S", str(Path(module.__file__))]
