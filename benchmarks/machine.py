"""The machine of a run: what it is, and how busy it is with other work while something is measured (Linux).

A run of a program is disturbed if other processes or the hypervisor take CPU time meanwhile, or if a fixed loop takes
longer than at best. The loop runs before and after. It shows what the CPU counts do not: a lower clock rate, or a cache
and memory that others use.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OTHERS_AT_MOST: Final = 0.05
"""The share of all CPUs that other processes may use."""
STEAL_AT_MOST: Final = 0.02
"""The share of all CPUs that the hypervisor may give to other machines."""
SLOWDOWN_AT_MOST: Final = 1.1
"""The time of the fixed loop, relative to the shortest of the run."""

_LOOPS: Final = 5
_ITERATIONS: Final = 60_000


@dataclass(frozen=True)
class Conditions:
    """How busy the machine was with other work."""

    others: float
    """Share of all CPUs that processes of others used."""
    steal: float
    """Share of all CPUs that the hypervisor gave to other machines."""
    slowdown: float
    """Time of the fixed loop relative to the shortest, the worse of before and after."""

    @property
    def reasons(self) -> list[str]:
        """Return why a figure that was measured meanwhile cannot be trusted; empty if it can."""
        reasons: list[str] = []
        if self.others > OTHERS_AT_MOST:
            reasons.append(f"other processes used {self.others:.0%} of the CPUs")
        if self.steal > STEAL_AT_MOST:
            reasons.append(f"the hypervisor took {self.steal:.0%} of the CPUs")
        if self.slowdown > SLOWDOWN_AT_MOST:
            reasons.append(f"a fixed loop took {self.slowdown:.1f} times as long as at best")
        return reasons

    @property
    def disturbance(self) -> float:
        """Return a number to compare conditions by. It is at most 1 if the machine was quiet."""
        return max(
            self.others / OTHERS_AT_MOST,
            self.steal / STEAL_AT_MOST,
            (self.slowdown - 1) / (SLOWDOWN_AT_MOST - 1),
        )


@dataclass(frozen=True)
class Ticks:
    """CPU time since the start of the machine, in the kernel's ticks."""

    total: int
    """Of all CPUs, idle or not."""
    used: int
    """By all processes."""
    steal: int
    own: int
    """By this process and its descendants."""

    @classmethod
    def read(cls, proc: Path = Path("/proc"), pid: int | None = None) -> Ticks:
        """Read the current counts. `pid` is the root of the tree of own processes, by default this process."""
        fields = [int(field) for field in (proc / "stat").read_text().partition("\n")[0].split()[1:9]]
        user, nice, system, *_, steal = fields
        return cls(sum(fields), user + nice + system, steal, _own_ticks(proc, pid or os.getpid()))


def conditions(before: Ticks, after: Ticks, slowdown: float) -> Conditions:
    """Return the conditions between two moments."""
    total = max(after.total - before.total, 1)
    own = after.own - before.own
    return Conditions(
        others=max(after.used - before.used - own, 0) / total,
        steal=(after.steal - before.steal) / total,
        slowdown=slowdown,
    )


class Watch:
    """Watches how busy the machine is while something is measured."""

    def __init__(self) -> None:
        self._shortest = _loop_seconds()
        self.found: Conditions = Conditions(0, 0, 1)
        """Of the last block."""

    @contextmanager
    def watching(self) -> Generator[None]:
        """Set `found` to the conditions during the block, also if the block raises."""
        loop, ticks = _loop_seconds(), Ticks.read()
        try:
            yield
        finally:
            after = Ticks.read()
            loops = loop, _loop_seconds()
            self._shortest = min(self._shortest, *loops)
            self.found = conditions(ticks, after, max(loops) / self._shortest)


def description() -> dict[str, str | int]:
    """Return the model of the CPU and the number of CPUs."""
    found = re.search(r"(?m)^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text())
    return {"cpu": found[1].strip() if found else os.uname().machine, "cpus": len(os.sched_getaffinity(0))}


def load_average() -> float:
    """Return the average number of processes that ran or waited for a CPU in the last minute."""
    return os.getloadavg()[0]


def _loop_seconds() -> float:
    """Return the CPU seconds of a fixed loop: the shortest of several, so that an interrupt does not count."""
    return min(_one_loop() for _ in range(_LOOPS))


def _one_loop() -> float:
    began = time.thread_time()
    counts: dict[int, int] = {}
    for number in range(_ITERATIONS):
        counts[number & 1023] = counts.get(number & 1023, 0) + number
    return time.thread_time() - began


def _own_ticks(proc: Path, pid: int) -> int:
    """Return the CPU time of a process, its descendants, and those of them that have ended."""
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for folder in proc.iterdir():
        if folder.name.isdigit() and (fields := _stat(folder)):
            ticks[int(folder.name)] = sum(map(int, fields[11:15]))
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    return _sum_of_tree(pid, ticks, children)


def _sum_of_tree(pid: int, ticks: Mapping[int, int], children: Mapping[int, list[int]]) -> int:
    return ticks.get(pid, 0) + sum(_sum_of_tree(child, ticks, children) for child in children.get(pid, ()))


def _stat(folder: Path) -> list[str]:
    """Return the fields of a process after its name, or nothing if it has ended."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
