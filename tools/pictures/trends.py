"""Kubewright's figures in the last runs of `make bench`, relative to the reference: benchmarks/results/history.jsonl.

A run has a dot, and a line for the interval of its ratio. No figure is typed here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from tools.pictures.drawing import MARGIN, WIDTH, Drawing, Hue, Theme

Line: TypeAlias = Mapping[str, Any]
"""One run: a line of the history."""


@dataclass(frozen=True)
class Trend:
    """A panel: one figure in all runs."""

    figure: str
    title: str


TITLE: Final = "Kubewright relative to controller-runtime, in the last runs"
TRENDS: Final = (
    Trend("cpu_ms_created", "CPU per object created"),
    Trend("cpu_ms_updated", "CPU per object updated"),
    Trend("latency_ms", "From an update to its status"),
    Trend("start_s", "Process start to first object ready"),
    Trend("rss_mb", "Memory at the end"),
    Trend("pods_cpu_s", "CPU to sync 10,000 Pods"),
)
ROWS: Final[Mapping[str, tuple[str, Hue]]] = {
    "kubewright": ("Kubewright", "blue"),
    "kubewright-one-pass": ("one pass", "purple"),
}

_RUNS: Final = 24
_GAP: Final = 34
_PANEL: Final = (WIDTH - 2 * MARGIN - _GAP) / 2
_PLOT: Final = 96
_HEIGHT: Final = _PLOT + 64
_HEAD: Final = 66
_AXIS: Final = 30
_VALUE: Final = 40


def read(path: Path) -> list[Line]:
    """Return the last runs that measured a trend, oldest first."""
    lines: list[Line] = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if any(_points(line, trend) for trend in TRENDS)][-_RUNS:]


def draw(runs: Sequence[Line], theme: Theme) -> Drawing:
    """Draw a panel for each figure, with all runs."""
    rows = (len(TRENDS) + 1) // 2
    drawing = Drawing(theme, _HEAD + rows * _HEIGHT + 50, title=TITLE, description=_description(runs))
    drawing.text(MARGIN, 38, TITLE, size=17, bold=True)
    drawing.text(WIDTH - MARGIN, 38, "lower is better", color=theme.muted, anchor="end")
    for index, trend in enumerate(TRENDS):
        x = MARGIN + (index % 2) * (_PANEL + _GAP)
        _panel(drawing, x, _HEAD + index // 2 * _HEIGHT, trend, runs)
    y = _HEAD + rows * _HEIGHT + 2
    drawing.line([(MARGIN, y), (WIDTH - MARGIN, y)], color=theme.border)
    drawing.text(MARGIN, y + 25, caption(runs), size=12, color=theme.muted)
    return drawing


def caption(runs: Sequence[Line]) -> str:
    """Return when the runs were, and what the marks mean."""
    first, last = runs[0]["at"][:10], runs[-1]["at"][:10]
    when = first if first == last else f"{first} to {last}"
    return f"{len(runs)} runs, {when}, machines may differ · line: 95 % interval · 1: controller-runtime"


def _points(run: Line, trend: Trend) -> dict[str, Mapping[str, float]]:
    """Return what a run says about a figure, by row, as far as it has a ratio."""
    found = run["figures"].get(trend.figure, {})
    return {name: found[name] for name in ROWS if "ratio" in found.get(name, {})}


def _panel(drawing: Drawing, x: float, y: float, trend: Trend, runs: Sequence[Line]) -> None:
    theme = drawing.theme
    points = [_points(run, trend) for run in runs]
    highest = max([1.25, *(each.get("high", each["ratio"]) for point in points for each in point.values())])
    bottom = y + 26 + _PLOT
    drawing.text(x, y + 12, trend.title, size=13.5, bold=True, width=_PANEL)

    def height(value: float) -> float:
        return bottom - min(value / highest, 1) * _PLOT

    for value in (0.0, 0.5, 1.0):
        level = height(value)
        drawing.line([(x + _AXIS, level), (x + _PANEL - _VALUE, level)], color=theme.border, dashed=value == 1)
        drawing.text(x, level + 4, f"{value:g}", size=11.5, color=theme.muted)
    step = (_PANEL - _AXIS - _VALUE - 20) / max(len(runs) - 1, 1)
    for index, point in enumerate(points):
        for name, each in point.items():
            center = x + _AXIS + 10 + index * step
            color = theme.tints[ROWS[name][1]].stroke
            if "low" in each:
                drawing.line([(center, height(each["low"])), (center, height(each["high"]))], color=color)
            drawing.dot(center, height(each["ratio"]), 3, color)
    for name, each in (points[-1] if points else {}).items():
        color = theme.tints[ROWS[name][1]].ink
        drawing.text(x + _PANEL - _VALUE + 6, height(each["ratio"]) + 4, f"{each['ratio']:.2f}", size=12, color=color)


def _description(runs: Sequence[Line]) -> str:
    """Return the last ratios in words."""
    sentences: list[str] = []
    for trend in TRENDS:
        for name, (title, _) in ROWS.items():
            found = [point[name]["ratio"] for run in runs if name in (point := _points(run, trend))]
            if found:
                sentences.append(f"{trend.title}, {title}: {found[0]:.2f} first, {found[-1]:.2f} last.")
    return " ".join(sentences)
