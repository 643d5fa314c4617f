"""Runs commands in processes that are forked from one that has imported them: Python starts only once.

A forked process has its own arguments, folder, environment, output and exit status, as if a shell had started it. Tests
of the start itself start the command instead.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Final

COMMAND: Final = Path(sys.executable).with_name("kubewright")
CONTROL_PLANE: Final = COMMAND.with_name("kubewright-controlplane")
PROGRAMS: Final = {str(COMMAND): "kubewright_cli.main", str(CONTROL_PLANE): "kubewright_controlplane.command"}
"""The modules of the commands."""
_IMPORTED: Final = (
    *PROGRAMS.values(),
    "kubewright_cli.commands.deploy",
    "kubewright_cli.commands.generate",
    "kubewright_cli.commands.status",
    "kubewright_cli.commands.up",
    "kubewright_controlplane.schema.structural.check",
)
"""They import what most commands need."""


class Forked:
    """A command that runs. Its parent is another process than this one."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._answer = connection.makefile("r")
        self.pid = int(self._answer.readline())
        self._status: int | None = None

    def wait(self, seconds: float | None = None) -> int:
        """Return the exit status. Raises TimeoutError after that many seconds."""
        if self._status is None:
            self._connection.settimeout(seconds)
            self._status = int(self._answer.readline())
            self._answer.close()
            self._connection.close()
        return self._status

    def is_running(self) -> bool:
        return self._status is None and not select.select([self._connection], [], [], 0)[0]


def start(
    *command: object, folder: Path, environment: Mapping[str, str], output: IO[str], errors: IO[str] | None = None
) -> Forked:
    """Start a command, without Python's start if it is one of `PROGRAMS`. It is stopped when this process exits."""
    asked = [[*map(str, command)], str(folder), dict(environment)]
    ours, theirs = socket.socketpair()
    with theirs:
        socket.send_fds(_requests(), [b"!"], [each.fileno() for each in (theirs, output, errors or output)])
    ours.sendall(json.dumps(asked).encode())
    ours.shutdown(socket.SHUT_WR)
    return Forked(ours)


def run(
    *command: object, folder: Path, environment: Mapping[str, str], merged: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command as `start` does. With `merged`, its standard error is part of `stdout`."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        started = start(
            *command, folder=folder, environment=environment, output=output, errors=output if merged else errors
        )
        status = started.wait()
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess([*map(str, command)], status, output.read(), errors.read())


@cache
def _requests() -> socket.socket:
    """Start the process that forks. It exits with this one."""
    ours, theirs = socket.socketpair()
    with theirs:
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [sys.executable, __file__, str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=own)
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def _read(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as stream:
        return stream.read()


def _reap(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def end_with_parent() -> None:
    """Ask Linux to send SIGTERM to this process when its parent dies: a killed test run leaves no command."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def _serve(requests: socket.socket) -> str:
    """Fork for each request. Returns in the process that becomes the command, with the path of the command."""
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        _, found, _, _ = socket.recv_fds(requests, 1, 3)
        if not found:
            os._exit(0)
        if os.fork() == 0:
            break
        for each in found:
            os.close(each)
    end_with_parent()
    requests.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.socket(fileno=found[0]) as connection:
        arguments, folder, environment = json.loads(_read(connection))
        command = os.fork()
        if command != 0:
            connection.sendall(f"{command}\n".encode())
            _, status = os.waitpid(command, 0)
            connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
            os._exit(0)
    end_with_parent()
    for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (found[1], 1), (found[2], 2)):
        os.dup2(source, target)
        os.close(source)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in environment
    sys.argv[:] = arguments
    return str(arguments[0])


if __name__ == "__main__":
    sys.path[0] = str(COMMAND.parent)
    for name in _IMPORTED:
        import_module(name)
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        command = _serve(requests)
    if command not in PROGRAMS:
        os.execvp(command, sys.argv)
    import_module(PROGRAMS[command]).main()
