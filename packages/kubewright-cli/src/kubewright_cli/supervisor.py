"""Runs the operator as a child process, and restarts it when its code changes.

    starting -> running -> (a file changes) -> stopping -> starting ...

A file that does not compile is reported, and the operator keeps running. An operator that exits is started again after
the next change. The cluster is not changed: the new process does what the old one left undone.

The operator stops when the supervisor dies, by whatever signal: it holds the other end of a pipe.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kubewright._runtime.signals import on_stop_signal
from kubewright_cli import console
from kubewright_cli.sources import Sources

_GRACE: Final = 1.0
"""Seconds that the old process has to stop before it is killed."""
_LIFELINE: Final = "KUBEWRIGHT_SUPERVISOR_PIPE"
"""The environment variable with the file descriptor of a pipe that ends when the supervisor dies."""


def stop_with_supervisor() -> None:
    """Send SIGTERM to this process when its supervisor dies, if it has one."""
    given = os.environ.pop(_LIFELINE, "")
    if given:
        pipe = int(given)
        os.set_inheritable(pipe, False)
        threading.Thread(target=_stop_at_end, args=(pipe,), name="supervisor", daemon=True).start()


def _stop_at_end(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


class Supervisor:
    """Runs `kubewright run` with `arguments` as a child process."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], sources: Sources | None) -> None:
        """Without `sources`, the operator is never restarted, and `run` ends when it exits."""
        self._command = (sys.executable, "-m", "kubewright", "run", *arguments)
        self._environment = {**os.environ, **environment}
        self._sources = sources
        self._stopping = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._lifeline, self._end_of_lifeline = os.pipe()  # the second one closes when this process dies

    async def run(self) -> int:
        """Run until a stop signal, or until the operator exits if it is not restarted. Returns the exit status."""
        on_stop_signal(self._stop)
        while True:
            self._process = await self._start()
            changed = await self._change(self._process)
            if not changed:
                return await self._process.wait()
            await self._end(self._process)
            console.note(f"{', '.join(map(str, changed))} changed: restarting")

    def _stop(self) -> None:
        """Request a graceful stop at the first signal, and kill the process at the second."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL if self._stopping.is_set() else signal.SIGTERM)
        self._stopping.set()

    async def _start(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            env={**self._environment, _LIFELINE: str(self._lifeline)},
            pass_fds=[self._lifeline],
            start_new_session=True,  # only this process receives Ctrl-C, and passes it on once
        )

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _GRACE)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _change(self, process: asyncio.subprocess.Process) -> list[Path]:
        """Return the files that changed; none if the operator has exited for good or is being stopped."""
        ended = asyncio.create_task(process.wait())
        stopping = asyncio.create_task(self._stopping.wait())
        changed = asyncio.create_task(self._good_change())
        try:
            await asyncio.wait({ended, stopping, changed}, return_when=asyncio.FIRST_COMPLETED)
            if self._sources and not (stopping.done() or changed.done()):
                console.note("the operator has exited; it restarts when a file changes")
                await asyncio.wait({stopping, changed}, return_when=asyncio.FIRST_COMPLETED)
            return changed.result() if changed.done() and not stopping.done() else []
        finally:
            for task in (ended, stopping, changed):
                task.cancel()

    async def _good_change(self) -> list[Path]:
        while self._sources:
            changed = await self._sources.change()
            error = self._sources.error(changed)
            if not error:
                return changed
            works = self._process is not None and self._process.returncode is None
            console.note(f"{error}; the operator keeps running" if works else error)
        return await asyncio.Future[list[Path]]()  # never done
