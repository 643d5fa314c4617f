"""CPU and memory of processes, as the kernel counts them (Linux)."""

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
"""CPU seconds per `_LOOK` below which a process counts as idle. Timers of Go and Python use a little."""
_LOOK: Final = 0.1
_LOOKS: Final = 3
"""The number of consecutive measurements in which it must be idle."""
_SETTLED_WITHIN: Final = 30.0


class Usage:
    """CPU and memory of some processes."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = tuple(pids)

    @property
    def cpu(self) -> float:
        """CPU seconds of all threads, user and system, in nanosecond steps."""
        return sum(time.clock_gettime(_cpu_clock(pid)) for pid in self._pids)

    @property
    def rss(self) -> int:
        """Resident memory in bytes."""
        return sum(_memory(pid, "VmRSS") for pid in self._pids)

    @property
    def peak_rss(self) -> int:
        """Peak resident memory in bytes."""
        return sum(_memory(pid, "VmHWM") for pid in self._pids)

    async def settle(self) -> None:
        """Wait until the processes are idle: late events are handled, garbage is collected."""
        deadline = time.monotonic() + _SETTLED_WITHIN
        before, quiet = self.cpu, 0
        while time.monotonic() < deadline and quiet < _LOOKS:
            await asyncio.sleep(_LOOK)
            now = self.cpu
            quiet = quiet + 1 if now - before < _QUIET else 0
            before = now


class Program(Usage):
    """A running process."""

    def __init__(self, process: Process) -> None:
        super().__init__([process.pid])
        self._process = process

    async def ask(self, line: str) -> bytes:
        """Write a line to the process' standard input, and return the line that it writes to its standard output."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line.encode() + b"\n")
        answer = await self._process.stdout.readline()
        if not answer:
            await asyncio.Event().wait()  # the process ends; `running` cancels this task and raises
        return answer


def compiled_into(folder: Path) -> dict[str, str]:
    """Return the environment of a Python program that keeps its bytecode in `folder`, as an installed one does."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder)}


@asynccontextmanager
async def running(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None, *, answers: bool = False
) -> AsyncGenerator[Program]:
    """Run `command` as a process for the duration of the block.

    Its output goes to `log`; with `answers`, only its standard error does. Raises ProcessFailed as soon as the process
    ends, if that is before the end of the block.
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
    """A measured process ended unexpectedly."""

    def __init__(self, command: Sequence[str], code: int | None, log: Path) -> None:
        end = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        super().__init__(f"{' '.join(command)} exited with status {code}; the end of its output:\n{end}")


def _cpu_clock(pid: int) -> int:
    """Return the clock of a process' CPU time, as clock_getcpuclockid(3) makes it."""
    return ~pid << 3 | 2


def _memory(pid: int, field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 if found else 0  # a process that has just ended has no memory
