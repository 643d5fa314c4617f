"""What containers that run as processes use: CPU time and resident memory of all their processes, from /proc.

The processes of a container are its first one, those of its group, and their descendants. On a machine without /proc,
nothing is known.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_PROC: Final = Path("/proc")
_WINDOW: Final = 15.0
"""Seconds over which CPU usage is averaged, as by metrics-server. A younger container's is averaged over its life."""


class ContainerUsage(NamedTuple):
    """The usage of one container: cores, averaged over `window` seconds, and bytes."""

    cpu: float
    memory: int
    window: float


class _Process(NamedTuple):
    parent: int
    group: int
    cpu: float
    """Seconds, with those of children that have ended."""
    memory: int
    started: float
    """Seconds after the start of the machine."""


class _Moment(NamedTuple):
    at: float
    cpu: float


class UsageMeter:
    """Measures containers, by any key that a restart of the container changes."""

    def __init__(self) -> None:
        self._moments: dict[str, tuple[_Moment, _Moment]] = {}
        """For each container the moment since which CPU time is counted, and the one that replaces it."""

    def read(self, containers: Mapping[str, int]) -> dict[str, ContainerUsage]:
        """Return the usage of containers, by key. `containers` are all that run, with their first processes."""
        table, now = _processes(), time.clock_gettime(time.CLOCK_BOOTTIME) if _PROC.is_dir() else 0.0
        found = {key: _measure(table, pid) for key, pid in containers.items() if pid in table}
        usage = {key: self._usage(key, now, *measured) for key, measured in found.items()}
        self._moments = {key: moments for key, moments in self._moments.items() if key in found}
        return usage

    def _usage(self, key: str, now: float, cpu: float, memory: int, started: float) -> ContainerUsage:
        begin = _Moment(started, 0.0)
        since, latest = self._moments.get(key, (begin, begin))
        if now - latest.at >= _WINDOW:
            since, latest = latest, _Moment(now, cpu)
        self._moments[key] = since, latest
        window = max(now - since.at, 0.01)
        return ContainerUsage(max(cpu - since.cpu, 0.0) / window, memory, window)


def _measure(table: Mapping[int, _Process], first: int) -> tuple[float, int, float]:
    """Return the CPU time, the memory and the start of a container's processes."""
    members = [table[pid] for pid in _members(table, first)]
    return sum(each.cpu for each in members), sum(each.memory for each in members), table[first].started


def _members(table: Mapping[int, _Process], first: int) -> Iterable[int]:
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    found: set[int] = set()
    waiting = [pid for pid, process in table.items() if process.group == first or pid == first]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, ())
    return found


def _processes() -> dict[int, _Process]:
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    found: dict[int, _Process] = {}
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            cpu = sum(int(each) for each in fields[11:15]) / ticks
            process = _Process(int(fields[1]), int(fields[2]), cpu, int(fields[21]) * page, int(fields[19]) / ticks)
            found[int(folder.name)] = process
    return found
