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
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, cast

import msgspec

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.kubelet.processes import launch, watch
from kubewright_controlplane.kubelet.processes.terminal import Terminal

Output = Callable[[int, bytes], None]
"""Takes what was written to a file descriptor, 1 or 2; nothing when no more can come."""

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
        self._open = {1, 2}
        loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[None] = loop.create_future()
        self._silent: asyncio.Future[None] = loop.create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self._terminal: Terminal | None = None
        self._transport: asyncio.SubprocessTransport
        self.pid = 0
        self._over = False
        """The whole group has been killed: its number may be another's by now."""

    @classmethod
    async def start(
        cls, command: Command, watcher: Watcher, output: Output, *, stdin: bool = False, terminal: bool = False
    ) -> Process:
        """Raises OSError when no process can be had.

        With `stdin` it can be written to; without, it reads nothing. With `terminal` all three are one terminal.
        """
        process = cls(output, watcher)
        reads = subprocess.PIPE if stdin else subprocess.DEVNULL
        writes = subprocess.PIPE
        if terminal:
            process._open = {1}
            process._terminal = Terminal(partial(process.pipe_data_received, 1))
            reads = writes = process._terminal.slave
        source, sink = os.pipe()
        try:
            process._transport, _ = await asyncio.get_running_loop().subprocess_exec(
                lambda: process, *_program(launch), str(source), stdin=reads, stdout=writes, stderr=writes,
                start_new_session=True, env={}, cwd="/", pass_fds=(source,),
            )  # fmt: skip
        except BaseException:
            os.close(sink)
            if process._terminal is not None:
                os.close(process._terminal.slave)
                process._terminal.close()
            raise
        finally:
            os.close(source)
        process.pid = process._transport.get_pid()
        watcher.add(process.pid)
        if process._terminal is not None:
            process._terminal.begin()
        await _order(sink, {**asdict(command), "terminal": terminal})
        return process

    async def wait(self) -> int:
        """The exit status once it has ended and what it wrote is read; for a signal 128 and its number."""
        await asyncio.shield(self._exited)
        self.kill()
        self._over = True
        self._watcher.remove(self.pid)
        await asyncio.wait({self._silent}, timeout=_LINGERING)
        self._transport.close()
        if self._terminal is not None:
            self._terminal.close()
        code = self._transport.get_returncode() or 0
        return 128 - code if code < 0 else code

    async def ended(self) -> int:
        """As `wait`, for whoever else wants to know; what it wrote may not be read by then."""
        await asyncio.shield(self._exited)
        return self._transport.get_returncode() or 0

    async def write(self, data: bytes) -> None:
        """To its standard input, if it has one. Waits for a process that does not read."""
        if self._terminal is not None:
            await self._terminal.write(data)
        elif (pipe := self._stdin()) is not None and not pipe.is_closing():
            pipe.write(data)
            await self._writable.wait()

    def close_input(self) -> None:
        """Its standard input ends. A terminal has no end."""
        if self._terminal is None and (pipe := self._stdin()) is not None:
            pipe.close()

    def resize(self, columns: int, rows: int) -> None:
        """Of its terminal, if it has one."""
        if self._terminal is not None:
            self._terminal.resize(columns, rows)

    def pause_output(self) -> None:
        """Take nothing of what it writes for a while."""
        for each in self._outputs():
            each.pause_reading()
        if self._terminal is not None:
            self._terminal.pause()

    def resume_output(self) -> None:
        for each in self._outputs():
            each.resume_reading()
        if self._terminal is not None:
            self._terminal.go_on()

    def send(self, number: int) -> None:
        """Signal the first process, as container runtimes do."""
        if not self._exited.done():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the whole group."""
        if self._over:
            return
        with suppress(ProcessLookupError, PermissionError):  # the latter: macOS, for a group of zombies
            os.killpg(self.pid, signal.SIGKILL)

    # Told by the event loop.

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if data:
            self._output(fd, data)
        else:
            self.pipe_connection_lost(fd, None)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 0:
            self._writable.set()
        if fd not in self._open:
            return
        self._open.remove(fd)
        self._output(fd, b"")
        if not self._open and not self._silent.done():
            self._silent.set_result(None)

    def process_exited(self) -> None:
        self._writable.set()
        if not self._exited.done():
            self._exited.set_result(None)

    def _stdin(self) -> asyncio.WriteTransport | None:
        return cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(0))

    def _outputs(self) -> Iterator[asyncio.ReadTransport]:
        if self._terminal is None:
            for fd in self._open:
                if (pipe := self._transport.get_pipe_transport(fd)) is not None:
                    yield cast("asyncio.ReadTransport", pipe)


async def _order(sink: int, order: JSONObject) -> None:
    """Tell the launcher, which reads to the end, what to become."""
    transport, _ = await asyncio.get_running_loop().connect_write_pipe(asyncio.BaseProtocol, os.fdopen(sink, "wb"))
    transport.write(msgspec.json.encode(order))
    transport.close()


def _program(module: Any) -> list[str]:
    """A program of ours, run by an interpreter that reads nothing but it."""
    return [sys.executable, "-I", "-S", str(Path(module.__file__))]
