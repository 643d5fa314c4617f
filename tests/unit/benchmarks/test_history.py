"""The results of runs: the latest, and one line for each run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks import history
from benchmarks.bars import Bar, judge
from benchmarks.history import Part
from benchmarks.report import Figure, Measured

FIGURES = (Figure("cpu_ms_created", "CPU, ms", 2),)
COUNTS = (Figure("count", "instructions, thousands", 1, depends_on_load=False),)
ABOUT: dict[str, Any] = {
    "at": "2026-01-02T03:04:05+00:00",
    "commit": "0123456789",
    "interpreter": "CPython 3.14.0 (PGO and LTO)",
    "versions": {"kubewright": "0.1.0"},
}


def part(*ours: float, theirs: float = 2.0) -> Part:
    rounds = {"cpu_ms_created": {"kubewright": list(ours), "controller-runtime": [theirs] * len(ours)}}
    return Part(
        Measured(rounds, {"kubewright": ["other processes used 40% of the CPUs"]}), FIGURES, "controller-runtime"
    )


def counted(thousands: float) -> Part:
    return Part(Measured({"count": {"kubewright": [thousands]}}), COUNTS, "kubewright")


def test_a_run_is_one_line_with_our_figures_their_intervals_and_the_busy_rounds(tmp_path: Path) -> None:
    history.append(tmp_path, history.entry(ABOUT, {"operators": part(1.0, 1.1, 0.9)}))
    history.append(tmp_path, history.entry(ABOUT, {"operators": part(1.0)}))
    first, second = history.entries(tmp_path)
    assert len((tmp_path / history.HISTORY).read_text().splitlines()) == 2
    assert first["commit"] == "0123456789"
    assert first["disturbed"] == {"operators": ["kubewright"]}
    (ours,) = first["figures"]["cpu_ms_created"].items()
    assert ours[0] == "kubewright"
    assert ours[1] == {
        "median": 1.0,
        "rounds": 3,
        "spread": 0.1,
        "of": "controller-runtime",
        "ratio": 0.49833,
        "low": 0.38834,
        "high": 0.63946,
    }
    assert "low" not in second["figures"]["cpu_ms_created"]["kubewright"]


def test_parts_that_a_run_did_not_measure_stay_if_the_sizes_are_the_same(tmp_path: Path) -> None:
    def write(name: str, size: int) -> dict[str, Any]:
        parts = {name: part(0.7, 0.71, 0.72)}
        verdicts = judge([Bar("cpu_ms_created", 0.4, of="controller-runtime")], FIGURES, parts[name].measured)
        history.write_latest(tmp_path, ABOUT, {"objects": size}, parts, verdicts)
        found: dict[str, Any] = json.loads((tmp_path / history.LATEST).read_text())
        return found

    assert write("operators", 100)["operators"] == {"cpu_ms_created": {"kubewright": 0.71, "controller-runtime": 2.0}}
    both = write("imports", 100)
    assert {"operators", "imports"} <= both.keys()
    assert both["rounds"]["operators"]["cpu_ms_created"]["kubewright"] == [0.7, 0.71, 0.72]
    assert both["disturbed"].keys() == {"operators", "imports"}
    assert both["cpu_ms_per_object"] == {"kubewright": 0.71, "controller-runtime": 2.0}
    assert [each["state"] for each in both["bars"]] == ["not decided"]
    assert "operators" not in write("imports", 200)


def test_counts_are_compared_with_the_last_run_of_the_same_interpreter(tmp_path: Path) -> None:
    now = history.entry(ABOUT, {"instructions": counted(101.0)})
    assert history.compared(tmp_path, now, counted(101.0)) == ""
    history.append(tmp_path, history.entry(ABOUT, {"instructions": counted(100.0)}))
    history.append(tmp_path, history.entry(ABOUT | {"interpreter": "CPython 3.11.7"}, {"instructions": counted(120.0)}))
    history.append(tmp_path, history.entry(ABOUT, {"operators": part(1.0)}))
    *_, line = history.compared(tmp_path, now, counted(101.0)).splitlines()
    assert line.split() == ["instructions,", "thousands", "100.0", "101.0", "+1.0%"]
