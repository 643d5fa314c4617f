"""The processes of etcd on this machine, found without the API."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from etcd_operator import objects


class Process(NamedTuple):
    """A running etcd."""

    number: int
    name: str
    token: str
    """The cluster's uid and its epoch."""
    url: str

    @property
    def lives(self) -> bool:
        return argument(self.number, "name") == self.name

    @property
    def root(self) -> Path:
        """The folder in which it was started, as it sees it."""
        return Path(f"/proc/{self.number}/cwd")

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it has ended
            os.kill(self.number, number)

    def open_log(self) -> int | None:
        """Open the folder with its log; None if there is none yet. While it is open, no other folder has its inode."""
        with suppress(OSError):
            return os.open(self.root / objects.DATA_FOLDER / "member" / "wal", os.O_RDONLY | os.O_DIRECTORY)
        return None


def processes_of(uid: str) -> Iterator[Process]:
    for folder in Path("/proc").glob("[0-9]*"):
        number = int(folder.name)
        token = argument(number, "initial-cluster-token") or ""
        if token.startswith(f"{uid}-"):
            name, url = argument(number, "name"), argument(number, "listen-client-urls")
            if name and url:
                yield Process(number, name, token, url)


def argument(process: int, name: str) -> str | None:
    """Return an option of an etcd; None if it runs another program, or has ended."""
    try:
        program, *arguments = Path(f"/proc/{process}/cmdline").read_bytes().decode().split("\0")
    except (OSError, ValueError):
        return None
    if program.rpartition("/")[2] != "etcd":
        return None
    return next((each.partition("=")[2] for each in arguments if each.startswith(f"--{name}=")), None)
