"""Operators in their own processes, which can be killed, suspended and stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from integration.command import NO_SERVERS

ROOT = Path(__file__).parents[2]
SOURCES = (*sorted(ROOT.glob("packages/*/src")), *sorted(ROOT.glob("examples/*/src")), ROOT / "tests")


class OperatorProcess:
    """A process that runs an operator's module."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    @classmethod
    async def start(
        cls, module: str, kubeconfig: Path, log: Path, arguments: Sequence[str] = NO_SERVERS
    ) -> OperatorProcess:
        """Append the log to the file `log`."""
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
        """The exit status, or None while the process runs."""
        return self._process.returncode

    async def works(self) -> None:
        """Raises AssertionError while the process does not."""
        assert self.status is None, self.log
        assert '"Controllers started"' in self.log

    async def halt(self) -> None:
        """Suspend the process, as if its machine were paused. It chooses the moment when it gets SIGUSR1."""
        self._process.send_signal(signal.SIGUSR1)
        stopped = await asyncio.to_thread(os.waitid, os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)
        assert stopped is not None

    def wake(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()

    async def stop(self) -> int:
        """Stop the process with SIGTERM. Returns its exit status."""
        self._process.terminate()
        return await self.ended()

    async def ended(self) -> int:
        """Wait for the exit of the process. Returns its exit status."""
        return await self._process.wait()


@asynccontextmanager
async def operator(
    module: str, kubeconfig: Path, log: Path, arguments: Sequence[str] = ()
) -> AsyncIterator[OperatorProcess]:
    """Run an operator for the duration of the block, and kill it at the end."""
    process = await OperatorProcess.start(module, kubeconfig, log, (*NO_SERVERS, *arguments))
    try:
        yield process
    finally:
        if process.status is None:
            await process.kill()
