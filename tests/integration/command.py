"""The command line as a process, and control planes that it starts."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from integration import forked
from integration.forked import COMMAND as COMMAND
from kubewright import Config
from kubewright.apis.core.v1 import ServiceAccount
from kubewright.testing import Cluster, eventually
from kubewright.testing._cluster import connected

CONTROL_PLANE = Path(sys.executable).with_name("kubewright-controlplane")
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
    done = forked.run(*arguments, folder=folder, environment=environment(kubeconfig), merged=True)
    return done.returncode, done.stdout


def _end_with_this_process() -> None:
    """Ask Linux to send SIGTERM to the new process when this one dies: a killed test run leaves no control plane."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


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
        self._process = subprocess.Popen(
            [*command, *map(str, arguments)],
            cwd=folder,
            env=environment(None) | {"TMPDIR": str(folder)},  # files of a killed process are removed with the test
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=_end_with_this_process if sys.platform == "linux" else None,
        )
        assert self._process.stdout is not None
        self.said = ""
        while "Ctrl-C stops it." not in self.said:
            line = self._process.stdout.readline()
            assert line, f"the command ended: {self.said}"
            self.said += line

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self, number: int) -> int:
        """Send a signal and wait for the process. Returns its exit status."""
        self._process.send_signal(number)
        assert self._process.stdout is not None
        self.said += self._process.stdout.read()
        return self._process.wait(30)

    def kill(self) -> None:
        if self._process.poll() is None:
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
