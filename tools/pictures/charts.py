"""The benchmarks' figures as bars: what `make bench` measured, from benchmarks/results/latest.json.

A chart whose section was not measured is not drawn. No figure is typed here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from tools.pictures.drawing import MARGIN, WIDTH, Drawing, Theme

Results: TypeAlias = Mapping[str, Any]
"""The document that `python -m benchmarks` writes."""

OURS: Final = ("kubewright", "embedded")
NAMES: Final = {
    "kubewright": "Kubewright",
    "controller-runtime": "controller-runtime",
    "kube-rs": "kube-rs",
    "kopf": "Kopf",
    "embedded": "Kubewright",
    "real": "kube-apiserver",
}
"""The names of what is measured, for readers."""


@dataclass(frozen=True)
class Panel:
    """The bars of one figure."""

    section: str
    figure: str
    title: str
    unit: str
    digits: int


@dataclass(frozen=True)
class Chart:
    """A picture of several figures."""

    title: str
    panels: Sequence[Panel]
    measured: str
    """The sizes in the caption: a template over the `about` of the results."""


CHARTS: Final = {
    "bench-operators": Chart(
        "The same operator in four toolkits",
        (
            Panel("operators", "cpu_ms_created", "CPU per object created", "ms", 2),
            Panel("operators", "cpu_ms_updated", "CPU per object updated", "ms", 2),
            Panel("operators", "cpu_ms_unchanged", "CPU per reconcile with nothing to do", "ms", 2),
            Panel("operators", "latency_ms", "From an update to its status", "ms", 1),
            Panel("operators", "rss_mb", "Memory at the end", "MB", 0),
            Panel("operators", "start_s", "Process start to first object ready", "s", 2),
        ),
        "{objects:,} objects, medians of {repetitions}",
    ),
    "bench-cache": Chart(
        "Pods in a cache",
        (
            Panel("cache", "pods_rss_mb", "Memory with {pods:,} Pods", "MB", 0),
            Panel("cache", "pods_cpu_s", "CPU to sync {pods:,} Pods", "s", 2),
            Panel("scale", "many_rss_mb", "Memory with {many:,} Pods", "MB", 0),
            Panel("scale", "many_cpu_s", "CPU to sync {many:,} Pods", "s", 2),
        ),
        "Pods of 4 KB",
    ),
    "bench-servers": Chart(
        "The embedded API server, and kube-apiserver with etcd",
        (
            Panel("apiservers", "create_us", "CPU per create", "µs", 0),
            Panel("apiservers", "get_us", "CPU per get", "µs", 0),
            Panel("apiservers", "merge_patch_us", "CPU per merge patch", "µs", 0),
            Panel("apiservers", "apply_us", "CPU per server-side apply", "µs", 0),
            Panel("apiservers", "list_us", "CPU per list of 3,000 objects", "µs", 0),
            Panel("apiservers", "server_rss_mb", "Memory with 3,000 objects", "MB", 0),
        ),
        "{requests:,} requests of each sort, medians of {repetitions}",
    ),
}

_GAP: Final = 34
_PANEL: Final = (WIDTH - 2 * MARGIN - _GAP) / 2
_ROW: Final = 24
_NAME: Final = 132
_VALUE: Final = 72
_HEAD: Final = 66


def read(path: Path) -> Results:
    results: Results = json.loads(path.read_text())
    return results


def is_measured(chart: Chart, results: Results) -> bool:
    """Return whether every figure of a chart is in the results."""
    return all(results.get(panel.section, {}).get(panel.figure) for panel in chart.panels)


def draw(chart: Chart, results: Results, theme: Theme) -> Drawing:
    rows = _rows(chart, results)
    height = 30 + len(rows) * _ROW + 18
    lines = (len(chart.panels) + 1) // 2
    drawing = Drawing(theme, _HEAD + lines * height + 50, title=chart.title, description=_description(chart, results))
    drawing.text(MARGIN, 38, chart.title, size=17, bold=True)
    drawing.text(WIDTH - MARGIN, 38, "shorter is better", color=theme.muted, anchor="end")
    for index, panel in enumerate(chart.panels):
        x = MARGIN + (index % 2) * (_PANEL + _GAP)
        _panel(drawing, x, _HEAD + index // 2 * height, panel, rows, results)
    y = _HEAD + lines * height + 2
    drawing.line([(MARGIN, y), (WIDTH - MARGIN, y)], color=theme.border)
    drawing.text(MARGIN, y + 25, caption(chart, rows, results), size=12, color=theme.muted)
    return drawing


def caption(chart: Chart, rows: Sequence[str], results: Results) -> str:
    """When, how and with which versions the figures were measured."""
    about = results["about"]
    versions = [
        f"{NAMES[who]} {about['versions'][who]}" for who in rows if who in about["versions"] and who not in OURS
    ]
    parts = [
        about["at"][:10],
        chart.measured.format(**about),
        f"{about['cpus']} CPUs",
        f"Python {'.'.join(about['python'].split('.')[:2])}",
        *versions,
    ]
    return " · ".join(parts)


def _rows(chart: Chart, results: Results) -> list[str]:
    """Return the names that any panel has. All panels have the same rows."""
    values = (results[panel.section][panel.figure] for panel in chart.panels)
    return list(dict.fromkeys(who for each in values for who in each))


def _panel(drawing: Drawing, x: float, y: float, panel: Panel, rows: Sequence[str], results: Results) -> None:
    theme = drawing.theme
    values: Mapping[str, float] = results[panel.section][panel.figure]
    longest = max(values.values())
    drawing.text(x, y + 12, _title(panel, results), size=13.5, bold=True, width=_PANEL)
    for index, who in enumerate(rows):
        top = y + 26 + index * _ROW
        ours = who in OURS
        drawing.text(x, top + 12.5, NAMES[who], bold=ours, color=theme.ink if ours else theme.muted, width=_NAME + 2)
        if who not in values:
            drawing.text(x + _NAME + 6, top + 12.5, "not measured", size=12, color=theme.muted)
            continue
        color = theme.tints["blue"].stroke if ours else theme.tints["gray"].stroke
        length = (_PANEL - _NAME - _VALUE) * values[who] / longest if longest else 0
        drawing.bar(x + _NAME + 6, top, length, 16, color)
        text = f"{values[who]:,.{panel.digits}f} {panel.unit}"
        drawing.text(x + _NAME + 12 + length, top + 12.5, text, size=12, bold=ours, width=_VALUE)


def _title(panel: Panel, results: Results) -> str:
    return panel.title.format(**results["about"])


def _description(chart: Chart, results: Results) -> str:
    sentences: list[str] = []
    for panel in chart.panels:
        values = results[panel.section][panel.figure]
        bars = ", ".join(f"{NAMES[who]} {value:,.{panel.digits}f} {panel.unit}" for who, value in values.items())
        sentences.append(f"{_title(panel, results)}: {bars}.")
    return " ".join(sentences)
