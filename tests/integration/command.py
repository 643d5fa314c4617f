"""The command line as a process, and control planes that it starts."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from integration import forked
from integration.forked import COMMAND as COMMAND
from integration.forked import CONTROL_PLANE as CONTROL_PLANE
from kubewright import Config
from kubewright.apis.core.v1 import ServiceAccount
from kubewright.testing import Cluster, eventually
from kubewright.testing._cluster import connected

NO_SERVERS = ("--health-probe-bind-address=0", "--metrics-bind-address=0")
"""Arguments of an operator whose default ports another test's operator may use at the same time."""


def environment(kubeconfig: Path | None) -> dict[str, str]:
    """Return the environment of a command. It writes no bytecode, which does not tell two edits of a second apart."""
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "PYTHONPATH", "FORCE_COLOR"))
    }
    own["PYTHONDONTWRITEBYTECODE"] = "1"
    return own | ({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})


def run(*arguments: object, folder: Path, kubeconfig: Path | None = None) -> tuple[int, str]:
    """Run a command. Returns its exit status and its output."""
    done = forked.run(COMMAND, *arguments, folder=folder, environment=environment(kubeconfig), merged=True)
    return done.returncode, done.stdout


class BackgroundCommand:
    """A command of Kubewright that runs while the test continues."""

    def __init__(self, process: forked.Forked, output: asyncio.StreamReader) -> None:
        self._process = process
        self.stdout = output
        """Its standard output and standard error."""

    @classmethod
    async def start(cls, *arguments: object, folder: Path, kubeconfig: Path | None = None) -> BackgroundCommand:
        reading, writing = os.pipe()
        with os.fdopen(writing, "w") as output:
            own = environment(kubeconfig)
            process = forked.start(COMMAND, *arguments, folder=folder, environment=own, output=output)
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb"))
        return cls(process, reader)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, or None while the command runs."""
        return None if self._process.is_running() else self._process.wait()

    def send_signal(self, number: int) -> None:
        if self._process.is_running():
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        return await asyncio.to_thread(self._process.wait)


class Up:
    """A control plane that `kubewright up`, or another `command`, runs in a folder."""

    def __init__(
        self,
        folder: Path,
        *arguments: object,
        command: Sequence[str | Path] = (COMMAND, "up"),
        kubeconfig: Path | None = None,
    ) -> None:
        self.kubeconfig = kubeconfig or folder / ".kubewright/kubeconfig"
        own = environment(None) | {"TMPDIR": str(folder)}  # files of a killed process are removed with the test
        reading, writing = os.pipe()
        self._output = os.fdopen(reading)
        with os.fdopen(writing, "w") as output:
            self._process = forked.start(
                *command, *arguments, folder=folder, environment=own, output=output, errors=sys.__stderr__
            )
        self.said = ""
        while "Ctrl-C stops it." not in self.said:
            line = self._output.readline()
            assert line, f"the command ended: {self.said}"
            self.said += line

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self, number: int) -> int:
        """Send a signal and wait for the process. Returns its exit status."""
        os.kill(self.pid, number)
        self.said += self._output.read()
        return self._process.wait(120)

    def kill(self) -> None:
        if self._process.is_running():
            self.end(signal.SIGKILL)


@contextmanager
def up(
    folder: Path,
    *arguments: object,
    command: Sequence[str | Path] = (COMMAND, "up"),
    kubeconfig: Path | None = None,
) -> Iterator[Up]:
    started = Up(folder, *arguments, command=command, kubeconfig=kubeconfig)
    try:
        yield started
    finally:
        started.kill()


@asynccontextmanager
async def cluster_of(started: Up) -> AsyncGenerator[Cluster]:
    """Connect as an administrator, once Pods can be created in the namespace `default`."""
    async with connected(Config.from_kubeconfig(started.kubeconfig)) as cluster:
        await eventually(cluster.client.get, ServiceAccount, "default", namespace="default")
        yield cluster
