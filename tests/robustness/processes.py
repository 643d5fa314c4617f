"""Operators as processes of their own, which can be killed, halted and stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = (*sorted(ROOT.glob("packages/*/src")), *sorted(ROOT.glob("examples/*/src")), ROOT / "tests")
QUIET = ("--metrics-bind-address=0", "--health-probe-bind-address=0")


class OperatorProcess:
    """A process that runs an operator's module."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    @classmethod
    async def start(cls, module: str, kubeconfig: Path, log: Path, arguments: Sequence[str] = QUIET) -> OperatorProcess:
        """Its log is added to the file `log`."""
        path = os.pathsep.join(map(str, SOURCES))
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", module, *arguments,
                env={**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": path},
                stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        return cls(process, log)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def status(self) -> int | None:
        """Its exit status, once it has one."""
        return self._process.returncode

    async def works(self) -> None:
        """Raises AssertionError as long as it does not."""
        assert self.status is None, self.log
        assert '"Controllers started"' in self.log

    async def halt(self) -> None:
        """Give it no more time, as when a machine is paused, from a moment on that it chooses when it gets SIGUSR1."""
        self._process.send_signal(signal.SIGUSR1)
        stopped = await asyncio.to_thread(os.waitid, os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)
        assert stopped is not None

    def wake(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()

    async def stop(self) -> int:
        """Ask it to stop, and wait until it has. Gives its exit status."""
        self._process.terminate()
        return await self.ended()

    async def ended(self) -> int:
        """Wait until it has ended. Gives its exit status."""
        return await self._process.wait()


@asynccontextmanager
async def operator(
    module: str, kubeconfig: Path, log: Path, arguments: Sequence[str] = ()
) -> AsyncIterator[OperatorProcess]:
    """An operator for as long as the block lasts; killed at its end, if it is still there."""
    process = await OperatorProcess.start(module, kubeconfig, log, (*QUIET, *arguments))
    try:
        yield process
    finally:
        if process.status is None:
            await process.kill()
