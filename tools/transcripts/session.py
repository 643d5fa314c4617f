"""A shell in which commands run one after the other. Variables, folders and jobs remain between commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

TIMEOUT: Final = 240.0
"""The longest time that a command may take, in seconds."""


_GIT_USER: Final = {"NAME": "Ann", "EMAIL": "ann@example.com"}
"""Whose commits the commands make."""


class Failed(Exception):
    """A transcript cannot be replayed: a command does not end, or does not print the expected line."""


class Said(NamedTuple):
    output: str
    status: int


class Session:
    """A shell (bash) in a folder, with `kubewright` and `kubectl` on its PATH and little else in its environment.

    It has no terminal and no input. The end of the session stops all running commands.
    """

    def __init__(self, home: Path, folder: Path) -> None:
        self.home = home
        self._records = home.with_name("session")
        self._records.mkdir()
        self._number = 0
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-m"],
            cwd=folder,
            env=_environment(home, self._records),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop running commands, and the shell."""
        try:
            if self._shell.poll() is None:
                self.run("kill $(jobs -p); wait")
        finally:
            self._shell.kill()
            self._shell.wait()

    def run(self, command: str) -> Said:
        """Run a command. Returns its output, standard error included, and its exit status."""
        output, status = self._start(command)
        self._wait(lambda: status.exists() and status.read_text().endswith("\n"), command, output)
        return Said(output.read_text(), int(status.read_text()))

    def start(self, command: str, is_ready: Callable[[str], bool]) -> str:
        """Start a command in the background. Returns its output until it is ready."""
        output, _ = self._start(command)
        self._wait(lambda: is_ready(output.read_text()), command, output)
        return output.read_text()

    def _start(self, command: str) -> tuple[Path, Path]:
        self._number += 1
        script, output, status = (self._records / f"{self._number}.{what}" for what in ("command", "output", "status"))
        script.write_text(f"{command}\n")
        output.touch()
        assert self._shell.stdin is not None
        self._shell.stdin.write(f". '{script}' </dev/null >'{output}' 2>&1; echo $? >'{status}'\n")
        self._shell.stdin.flush()
        return output, status

    def _wait(self, is_so: Callable[[], bool], command: str, output: Path) -> None:
        until = time.monotonic() + TIMEOUT
        while not is_so():
            if self._shell.poll() is not None:
                raise Failed(f"$ {command}\nended the shell\n{output.read_text()}")
            if time.monotonic() > until:
                self._end_all()
                raise Failed(f"$ {command}\nhas not ended within {TIMEOUT:.0f} s\n{output.read_text()}")
            time.sleep(0.02)

    def _end_all(self) -> None:
        """Stop the whole session, commands in the foreground and those in the background."""
        own = self._shell.pid
        for process in Path("/proc").glob("[0-9]*"):
            pid = int(process.name)
            try:
                if os.getsid(pid) == own:
                    os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def _environment(home: Path, temporary: Path) -> dict[str, str]:
    binaries = Path(sys.executable).parent
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = [str(binaries), str(cache / "kubewright/controlplane/current/bin"), os.environ["PATH"]]
    return {
        "PATH": os.pathsep.join(path),
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "XDG_CACHE_HOME": str(cache),
        "VIRTUAL_ENV": str(binaries.parent),
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "100",
        **{f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _GIT_USER.items()},
        # The default ports of programs are free at this address, whatever else runs on this machine.
        "KUBEWRIGHT_BIND_HOST": f"127.1.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}",
    }
