"""How busy the machine is with other work, from the kernel's counts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from benchmarks.interpreters import interpreter, is_pgo
from benchmarks.machine import Conditions, Ticks, Watch, conditions

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def proc(folder: Path, cpu: str, processes: dict[int, tuple[int, list[int]]]) -> Path:
    """Write what the kernel reports: counts of all CPUs, and of processes with their parents."""
    folder.mkdir()
    (folder / "stat").write_text(f"cpu  {cpu} 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    for pid, (parent, ticks) in processes.items():
        (folder / str(pid)).mkdir()
        times = " ".join(map(str, ticks))
        (folder / str(pid) / "stat").write_text(f"{pid} (a) b) S {parent} 1 1 0 -1 0 0 0 0 0 {times} 20 0\n")
    return folder


def test_descendants_and_their_ended_children_count_as_own_work(tmp_path: Path) -> None:
    tree = {10: (1, [5, 1, 2, 2]), 11: (10, [20, 5, 0, 0]), 12: (11, [3, 0, 0, 0]), 13: (1, [70, 7, 0, 0])}
    ticks = Ticks.read(proc(tmp_path / "proc", "100 10 40 800 20 5 5 20", tree), pid=10)
    assert ticks == Ticks(total=1000, used=150, steal=20, own=38)


def test_other_processes_and_the_hypervisor_disturb_a_run() -> None:
    before = Ticks(total=1000, used=100, steal=0, own=50)
    quiet = conditions(before, Ticks(total=2000, used=600, steal=1, own=548), slowdown=1.01)
    assert quiet.reasons == []
    assert quiet.disturbance <= 1
    busy = conditions(before, Ticks(total=2000, used=900, steal=30, own=450), slowdown=1.3)
    assert busy.reasons == [
        "other processes used 40% of the CPUs",
        "the hypervisor took 3% of the CPUs",
        "a fixed loop took 1.3 times as long as at best",
    ]
    assert busy.disturbance > quiet.disturbance


def test_the_conditions_of_a_block_are_known_after_it_also_if_it_raises() -> None:
    watch = Watch()
    with pytest.raises(ZeroDivisionError), watch.watching():
        _ = 1 / 0
    assert watch.found != Conditions(0, 0, 0)
    assert watch.found.slowdown >= 1


def test_an_interpreter_tells_how_it_was_built() -> None:
    this = interpreter()
    assert this.name == f"CPython {'.'.join(map(str, sys.version_info[:3]))}"
    assert str(this).startswith(f"{this.name} (")
    assert os.path.samefile(this.path, sys.executable)
    assert is_pgo("'--prefix=/usr' '--enable-optimizations' '--with-lto'", "")
    assert is_pgo("", "-O3 -fprofile-use -flto")
    assert not is_pgo("'--enable-shared'", "-O3")
