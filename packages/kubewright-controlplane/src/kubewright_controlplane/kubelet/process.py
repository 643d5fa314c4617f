"""One process of a container, in a process group of its own, with its output and its terminal.

Guarantees
    The process and its group do not outlive the control plane, even if the control plane is killed.
    After the first process of the group has exited, the rest of the group is killed.
Not guaranteed
    A process that leaves its group (`setsid`) is not found.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, cast

import msgspec

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.kubelet.helpers import exec_helper
from kubewright_controlplane.kubelet.helpers import reaper as reaper_program
from kubewright_controlplane.kubelet.rootfolder import View
from kubewright_controlplane.kubelet.sockets import PodSockets, SocketCalls

Output = Callable[[int, bytes], None]
"""Receives the output of a file descriptor, 1 or 2. Empty output is the end."""

_OUTPUT_SECONDS: Final = 1.0
"""How long to read output after the process has exited: a process outside its group may hold its pipes open."""
_CHUNK: Final = 64 << 10
_PIECE: Final = 16 << 10
"""Bytes of output that are passed on before others are served: they may be as many lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """A program that makes a sandbox and runs a command in it."""

    program: str
    arguments: Sequence[str]
    """The first arguments of the program."""
    opened: Sequence[tuple[str, str, str, str]] = ()
    """Options for paths that are opened without following links: the option, a folder, a path below it, the target."""
    options: Sequence[str] = ()
    """The arguments after these."""
    prefix: Sequence[str] = ()
    """A command in the sandbox that runs the command."""
    join: int | None = None
    """The process ID of a launcher with whose sandbox this one shares its processes."""
    takes_terminal: bool = False
    """The command in the sandbox takes the terminal."""
    read_only: Sequence[str] = ()
    """Files of this machine that a process in the sandbox could change if they were not mounted read-only."""
    capabilities: Sequence[int] = ()
    """The capabilities of processes in the sandbox."""
    view: View
    """Where the paths in the sandbox are on this machine."""
    user: tuple[int, int, list[int]] | None = None
    """The user, the group and the supplementary groups of processes in the sandbox; None: those of this process."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run, with its environment."""

    arguments: Sequence[str]
    environment: dict[str, str]
    folder: str
    launcher: Launcher | None = None
    """None: the command runs without a sandbox."""
    inside: int | None = None
    """The process ID of a launcher: the command runs in its sandbox."""
    sockets: PodSockets | None = None
    """The sockets of the Pod; None: its programs get the addresses that they ask for."""

    def document(self) -> JSONObject:
        """Return what the exec helper needs to know."""
        document: JSONObject = {
            "arguments": list(self.arguments),
            "environment": self.environment,
            "folder": self.folder,
            "owns_terminal": self.launcher is None or not (self.inside or self.launcher.takes_terminal),
        }
        if self.launcher is not None and self.inside is not None:
            capabilities = list(self.launcher.capabilities)
            document |= {"inside": self.inside, "capabilities": capabilities, "user": self.launcher.user}
        elif self.launcher is not None:
            launcher = self.launcher
            parts = (launcher.arguments, launcher.opened, launcher.options, launcher.prefix, launcher.read_only)
            document |= {
                "launcher": [launcher.program, *(list(each) for each in parts)],
                "user": launcher.user,
                "join": launcher.join,
            }
            document["folder"] = "/"  # the launcher changes to the folder of the command
        return document


class Reaper:
    """Reports process groups to the program `reaper`, which kills them after this process has died.

    The program starts with the first group.
    """

    def __init__(self) -> None:
        self._program: subprocess.Popen[bytes] | None = None
        self._groups: set[int] = set()

    @property
    def has_groups(self) -> bool:
        """Whether groups are registered."""
        return bool(self._groups)

    def add(self, group: int) -> None:
        """Register the group to be killed when this process dies."""
        self._groups.add(group)
        if self._program is None or self._program.poll() is not None:
            self._start()
        else:
            self._send("+", group)

    def remove(self, group: int) -> None:
        self._groups.discard(group)
        self._send("-", group)

    def close(self) -> None:
        """End the program. It kills the groups that are left."""
        program, self._program = self._program, None
        if program is not None:
            assert program.stdin is not None
            with suppress(BrokenPipeError):
                program.stdin.close()
            program.wait()

    def _start(self) -> None:
        self._program = subprocess.Popen(
            _program(reaper_program), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )
        for group in sorted(self._groups):
            self._send("+", group)

    def _send(self, sign: str, group: int) -> None:
        pipe: IO[bytes] | None = self._program.stdin if self._program is not None else None
        if pipe is not None:
            with suppress(BrokenPipeError):  # it was killed; the next group restarts it with all groups
                pipe.write(f"{sign}{group}\n".encode())
                pipe.flush()


class Terminal:
    """A pseudo-terminal for one process. `output` receives the output of the process; empty output is the end."""

    def __init__(self, output: Callable[[bytes], None]) -> None:
        self._master, self.slave = os.openpty()
        os.set_blocking(self._master, False)
        self._output = output
        self._loop = asyncio.get_running_loop()
        self._open = True

    def handed_over(self) -> None:
        """Start reading: the process holds the other side now."""
        os.close(self.slave)
        self.resume()

    def pause(self) -> None:
        """Stop reading, so that the process has to wait."""
        self._loop.remove_reader(self._master)

    def resume(self) -> None:
        if self._open:
            self._loop.add_reader(self._master, self._read)

    async def write(self, data: bytes) -> None:
        """Write to the process. Waits while the process does not read."""
        while data and self._open:
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                await self._writable()
            except OSError:  # the process has exited
                return

    def resize(self, columns: int, rows: int) -> None:
        if self._open:
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._master)
            os.close(self._master)

    def _read(self) -> None:
        try:
            data = os.read(self._master, _CHUNK)
        except BlockingIOError:
            return
        except OSError:  # Linux: the last process with the other side has closed it
            data = b""
        if not data:
            self._loop.remove_reader(self._master)
        self._output(data)

    async def _writable(self) -> None:
        ready = asyncio.Event()
        self._loop.add_writer(self._master, ready.set)
        try:
            await ready.wait()
        finally:
            self._loop.remove_writer(self._master)


class Process(asyncio.SubprocessProtocol):
    """A process that was started by `start`."""

    def __init__(self, output: Output, reaper: Reaper) -> None:
        self._output = output
        self._reaper = reaper
        self._open = {1, 2}
        self._received: deque[tuple[int, bytes]] = deque()
        """Output that is passed on later."""
        self._pauses = 0
        """How many clients have not read its output."""
        loop = self._loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[None] = loop.create_future()
        self._silent: asyncio.Future[None] = loop.create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self._terminal: Terminal | None = None
        self._is_launcher = False
        self._calls: SocketCalls | None = None
        self._transport: asyncio.SubprocessTransport
        self.pid = 0
        self._over = False
        """The whole group has been killed. Its number may belong to another group by now."""

    @classmethod
    async def start(
        cls, command: Command, reaper: Reaper, output: Output, *, stdin: bool = False, terminal: bool = False
    ) -> Process:
        """Start a process. Raises OSError if that fails.

        Without `stdin`, its standard input is empty. With `terminal`, its input and output are one terminal.
        """
        if any("\0" in text for text in (*command.arguments, *command.environment, *command.environment.values())):
            raise OSError(errno.EINVAL, "an argument or a variable of the command contains NUL")
        process = cls(output, reaper)
        process._is_launcher = command.launcher is not None and command.inside is None
        reads = subprocess.PIPE if stdin else subprocess.DEVNULL
        writes = subprocess.PIPE
        if terminal:
            process._open = {1}
            process._terminal = Terminal(partial(process.pipe_data_received, 1))
            reads = writes = process._terminal.slave
        source, sink = os.pipe()
        calls = process._calls = SocketCalls(command.sockets) if command.sockets is not None else None
        channel = calls.theirs.fileno() if calls is not None else None
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: process, *_program(exec_helper), str(source), stdin=reads, stdout=writes, stderr=writes,
                start_new_session=True, env={}, cwd="/", pass_fds=(source,) if channel is None else (source, channel),
            )  # fmt: skip
        except BaseException:
            os.close(sink)
            if calls is not None:
                calls.close()
            if process._terminal is not None:
                os.close(process._terminal.slave)
                process._terminal.close()
            raise
        finally:
            os.close(source)
        process.pid = process._transport.get_pid()
        reaper.add(process.pid)
        if process._terminal is not None:
            process._terminal.handed_over()
        if calls is not None:
            calls.handed_over()
        await _send_command(sink, {**command.document(), "terminal": terminal, "channel": channel})
        return process

    async def wait(self) -> int:
        """Wait for the exit and for the output. Returns the exit status: 128 plus the number for a signal."""
        await asyncio.shield(self._exited)
        self.kill()
        self._over = True
        self._reaper.remove(self.pid)
        await asyncio.wait({self._silent}, timeout=_OUTPUT_SECONDS)
        self._open.clear()
        self._transport.close()
        if self._terminal is not None:
            self._terminal.close()
        if self._calls is not None:
            self._calls.close()
        code = self._transport.get_returncode() or 0
        return 128 - code if code < 0 else code

    async def ended(self) -> int:
        """Wait for the exit, for a second caller. Output may still be unread. Returns the exit status."""
        await asyncio.shield(self._exited)
        return self._transport.get_returncode() or 0

    async def write(self, data: bytes) -> None:
        """Write to its standard input, if it has one. Waits while the process does not read."""
        if self._terminal is not None:
            await self._terminal.write(data)
        elif (pipe := self._stdin()) is not None and not pipe.is_closing():
            pipe.write(data)
            await self._writable.wait()

    def close_input(self) -> None:
        """Close its standard input. Has no effect on a terminal."""
        if self._terminal is None and (pipe := self._stdin()) is not None:
            pipe.close()

    def resize(self, columns: int, rows: int) -> None:
        """Resize its terminal, if it has one."""
        if self._terminal is not None:
            self._terminal.resize(columns, rows)

    def pause_output(self) -> None:
        """Stop reading its output, so that it has to wait until `resume_output` has been called as often."""
        self._pauses += 1
        self._stop_reading()

    def resume_output(self) -> None:
        self._pauses -= 1
        if not (self._pauses or self._received):
            self._resume_reading()

    def send(self, number: int) -> None:
        """Send a signal to the first process of the container, as container runtimes do."""
        if not self._exited.done():
            pid = (first_process(self.pid) if self._is_launcher else None) or self.pid
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """Kill the whole group."""
        if self._over:
            return
        with suppress(ProcessLookupError, PermissionError):  # PermissionError: macOS, for a group of zombies
            os.killpg(self.pid, signal.SIGKILL)

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take output, or its end, if `data` is empty."""
        was_waiting = bool(self._received)
        self._received += [(fd, data[at : at + _PIECE]) for at in range(0, len(data), _PIECE)] or [(fd, b"")]
        if not was_waiting:
            self._stop_reading()
            self._pass_on()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 0:
            self._writable.set()
        else:
            self.pipe_data_received(fd, b"")

    def _pass_on(self) -> None:
        """Pass a piece of output on, and the next one when others have had their turn."""
        fd, data = self._received[0]
        if fd in self._open:
            self._output(fd, data)
            if not data:
                self._open.remove(fd)
        if not self._open and not self._silent.done():
            self._silent.set_result(None)
        self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        self._received.popleft()
        if self._received:
            self._pass_on()
        elif not self._pauses:
            self._resume_reading()

    def process_exited(self) -> None:
        self._writable.set()
        if not self._exited.done():
            self._exited.set_result(None)

    def _stdin(self) -> asyncio.WriteTransport | None:
        return cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(0))

    def _stop_reading(self) -> None:
        for each in self._outputs():
            each.pause_reading()
        if self._terminal is not None:
            self._terminal.pause()

    def _resume_reading(self) -> None:
        for each in self._outputs():
            each.resume_reading()
        if self._terminal is not None and self._open:
            self._terminal.resume()

    def _outputs(self) -> Iterator[asyncio.ReadTransport]:
        if self._terminal is None:
            for fd in self._open:
                pipe = self._transport.get_pipe_transport(fd)
                if pipe is not None and not pipe.is_closing():
                    yield cast("asyncio.ReadTransport", pipe)


def first_process(launcher: int) -> int | None:
    """Return the process that runs the command of a launcher; None while it does not run.

    The launcher starts other processes of its program in the sandbox. The first child that is not one is the command.
    """
    with suppress(OSError):  # a process has ended
        program = exec_helper.name_of(launcher)
        for process in exec_helper.first_descendants(launcher):
            if exec_helper.name_of(process) != program:
                return process
    return None


async def _send_command(sink: int, command: JSONObject) -> None:
    """Send the command to the exec helper, which reads to the end."""
    transport, _ = await asyncio.get_running_loop().connect_write_pipe(asyncio.BaseProtocol, os.fdopen(sink, "wb"))
    transport.write(msgspec.json.encode(command))
    transport.close()


def _program(module: Any) -> list[str]:
    """Return the command line of a helper, without site packages and environment variables of Python."""
    return [sys.executable, "-I", "-S", str(Path(module.__file__))]
