"""The operator as a process of its own, started again when its code changes.

    starting -> working -> (a file changes) -> stopping -> starting ...

A file that is no Python changes nothing: what is wrong is told, and the operator goes on as it was. An operator that
ends by itself is started again with the next change. The cluster is not touched: what the old process has not done, the
new one does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kubewright._runtime.signals import on_stop_signal
from kubewright_cli import console
from kubewright_cli.sources import Sources

_TO_STOP: Final = 1.0
"""Seconds that an old process has to end what it does, before it is killed for the new one."""


class Supervisor:
    """Runs `kubewright run` with `arguments` as a child process."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], sources: Sources | None) -> None:
        """Without `sources` it is never started again, and its end is the end."""
        self._command = (sys.executable, "-m", "kubewright", "run", *arguments)
        self._environment = {**os.environ, **environment}
        self._sources = sources
        self._stopping = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> int:
        """Until it is asked to stop, or, when it is not started again, its own end. Gives its exit status."""
        on_stop_signal(self._stop)
        while True:
            self._process = await self._start()
            changed = await self._change(self._process)
            if not changed:
                return await self._process.wait()
            await self._end(self._process)
            console.note(f"{', '.join(map(str, changed))} changed: starting again")

    def _stop(self) -> None:
        """The first signal asks for a graceful stop, the second ends the process at once."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL if self._stopping.is_set() else signal.SIGTERM)
        self._stopping.set()

    async def _start(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            env=self._environment,
            start_new_session=True,  # Ctrl-C comes to this process alone, which passes it on once
        )

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _TO_STOP)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _change(self, process: asyncio.subprocess.Process) -> list[Path]:
        """The files that changed, once some have; none when it is over."""
        ended = asyncio.create_task(process.wait())
        stopping = asyncio.create_task(self._stopping.wait())
        changed = asyncio.create_task(self._good_change())
        try:
            await asyncio.wait({ended, stopping, changed}, return_when=asyncio.FIRST_COMPLETED)
            if self._sources and not (stopping.done() or changed.done()):
                console.note("the operator has ended; it is started again when a file changes")
                await asyncio.wait({stopping, changed}, return_when=asyncio.FIRST_COMPLETED)
            return changed.result() if changed.done() and not stopping.done() else []
        finally:
            for task in (ended, stopping, changed):
                task.cancel()

    async def _good_change(self) -> list[Path]:
        while self._sources:
            changed = await self._sources.change()
            fault = self._sources.fault(changed)
            if not fault:
                return changed
            works = self._process is not None and self._process.returncode is None
            console.note(f"{fault}; the operator goes on as it was" if works else fault)
        return await asyncio.Future[list[Path]]()  # never
