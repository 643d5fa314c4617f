"""Runs the command line in processes that are forked from one that has imported it: Python starts only once.

A forked process has its own arguments, folder, environment, output and exit status, as if a shell had started it. Tests
of the start itself, and tests that send signals, start the command instead.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
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
from typing import Final

COMMAND: Final = Path(sys.executable).with_name("kubewright")
_IMPORTED: Final = (
    "kubewright_cli.commands.deploy",
    "kubewright_cli.commands.generate",
    "kubewright_cli.commands.status",
    "kubewright_cli.main",
    "kubewright_controlplane.schema.structural.check",
)
"""They import what most commands need."""


def run(
    *arguments: object, folder: Path, environment: Mapping[str, str], merged: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command. With `merged`, its standard error is part of `stdout`."""
    asked = [[*map(str, arguments)], str(folder), dict(environment)]
    ours, theirs = socket.socketpair()
    with ours, tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        with theirs:
            files = [theirs, output, output if merged else errors]
            socket.send_fds(_requests(), [b"!"], [each.fileno() for each in files])
        ours.sendall(json.dumps(asked).encode())
        ours.shutdown(socket.SHUT_WR)
        status = _read(ours)
        assert status, f"no process was started for kubewright {' '.join(asked[0])}"
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(asked[0], int(status), output.read(), errors.read())


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


def _serve(requests: socket.socket) -> None:
    """Fork for each request. Returns in the process that becomes the command."""
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        _, found, _, _ = socket.recv_fds(requests, 1, 3)
        if not found:
            os._exit(0)
        if os.fork() == 0:
            break
        for each in found:
            os.close(each)
    requests.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.socket(fileno=found[0]) as connection:
        arguments, folder, environment = json.loads(_read(connection))
        command = os.fork()
        if command != 0:
            _, status = os.waitpid(command, 0)
            connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
            os._exit(0)
    for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (found[1], 1), (found[2], 2)):
        os.dup2(source, target)
        os.close(source)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in environment
    sys.argv[:] = [str(COMMAND), *arguments]


if __name__ == "__main__":
    sys.path[0] = str(COMMAND.parent)
    for name in _IMPORTED:
        import_module(name)
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        _serve(requests)
    import_module("kubewright_cli.main").main()
