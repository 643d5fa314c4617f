"""What a process costs, as the kernel counts it (Linux)."""

from __future__ import annotations

import asyncio
import os
import re
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.report import NotMeasured

_STOPPED_WITHIN: Final = 15.0
_QUIET: Final = 0.002
"""Seconds of CPU in one `_LOOK` below which a process counts as idle; Go's and Python's timers cost a little."""
_LOOK: Final = 0.1
_LOOKS: Final = 3
"""How often in a row it must look idle."""
_PATIENCE: Final = 30.0


class Usage:
    """What processes have used."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = tuple(pids)

    @property
    def cpu(self) -> float:
        """Seconds of CPU, user and system, of all threads, in nanosecond steps."""
        return sum(time.clock_gettime(_cpu_clock(pid)) for pid in self._pids)

    @property
    def rss(self) -> int:
        """Resident memory in bytes."""
        return sum(_memory(pid, "VmRSS") for pid in self._pids)

    @property
    def peak_rss(self) -> int:
        """The most resident memory that there has been, in bytes."""
        return sum(_memory(pid, "VmHWM") for pid in self._pids)

    async def settle(self) -> None:
        """Wait until the processes have nothing left to do: garbage collected, late events handled."""
        deadline = time.monotonic() + _PATIENCE
        before, quiet = self.cpu, 0
        while time.monotonic() < deadline and quiet < _LOOKS:
            await asyncio.sleep(_LOOK)
            now = self.cpu
            quiet = quiet + 1 if now - before < _QUIET else 0
            before = now


class Program(Usage):
    """A process that runs."""

    def __init__(self, process: Process) -> None:
        super().__init__([process.pid])
        self._process = process

    async def ask(self, line: str) -> bytes:
        """What the process answers on its standard output to a line on its standard input."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line.encode() + b"\n")
        answer = await self._process.stdout.readline()
        if not answer:
            await asyncio.Event().wait()  # it ends, of which `running` is about to hear and tell
        return answer


def compiled_into(folder: Path) -> dict[str, str]:
    """The environment of a Python program whose bytecode is kept, in `folder`, as that of an installed one is."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder)}


@asynccontextmanager
async def running(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None, *, answers: bool = False
) -> AsyncGenerator[Program]:
    """`command` as a process for as long as the block lasts; its output goes to `log`, with `answers` its errors alone.

    Raises ProcessFailed, at once, when the process ends before the block does.
    """
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE if answers else DEVNULL,
            stdout=PIPE if answers else output,
            stderr=output,
            env=environment,
        )
    owner = asyncio.current_task()
    assert owner is not None
    ended = asyncio.create_task(process.wait())
    interrupt = partial(_cancel, owner)
    ended.add_done_callback(interrupt)
    try:
        yield Program(process)
    except asyncio.CancelledError:
        if not ended.done():
            raise
        owner.uncancel()
        raise ProcessFailed(command, process.returncode, log) from None
    finally:
        ended.remove_done_callback(interrupt)
        await _stop(process)


def _cancel(owner: asyncio.Task[object], _: asyncio.Future[int]) -> None:
    owner.cancel()


async def _stop(process: Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_STOPPED_WITHIN):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


class ProcessFailed(NotMeasured):
    """A process that is measured ended by itself."""

    def __init__(self, command: Sequence[str], code: int | None, log: Path) -> None:
        end = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        super().__init__(f"{' '.join(command)} ended with code {code}; the end of its output:\n{end}")


def _cpu_clock(pid: int) -> int:
    """The clock of a process' CPU time, as clock_getcpuclockid(3) makes it."""
    return ~pid << 3 | 2


def _memory(pid: int, field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 if found else 0  # a process that has just ended has none
