"""The targets of the design, and whether the measured figures meet them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.peers import CONTROLLER_RUNTIME, KOPF, KUBEWRIGHT
from benchmarks.report import Figure, Medians, lined


@dataclass(frozen=True)
class Bar:
    """An upper limit for a figure of Kubewright, absolute or relative to the same figure of a peer."""

    figure: str
    at_most: float
    of: str = ""
    """The peer to whose figure `at_most` is a ratio. If empty, `at_most` is absolute."""
    ours: str = KUBEWRIGHT


@dataclass(frozen=True)
class Verdict:
    """A bar compared with the measured figure."""

    bar: str
    measured: float
    holds: bool


EMBEDDED: Final = "embedded"
ON_DISK: Final = "embedded, --data"
REAL: Final = "real"

BARS: Final = (
    Bar("cpu_ms_created", 0.4, of=CONTROLLER_RUNTIME),
    Bar("cpu_ms_created", 0.1, of=KOPF),
    Bar("cpu_ms_updated", 0.4, of=CONTROLLER_RUNTIME),
    Bar("cpu_ms_updated", 0.1, of=KOPF),
    Bar("latency_ms", 1.0, of=CONTROLLER_RUNTIME),
    Bar("start_s", 1.0, of=CONTROLLER_RUNTIME),
    Bar("rss_mb", 1.0, of=CONTROLLER_RUNTIME),
    Bar("requests_unchanged", 0),
    Bar("idle_requests", 0),
    Bar("restart_writes", 0),
    Bar("pods_rss_mb", 80),
    Bar("pods_rss_mb", 60),
    Bar("pods_cpu_s", 0.65),
    Bar("pods_cpu_s", 1.0, of=CONTROLLER_RUNTIME),
    Bar("review_default_us", 0.5, of=CONTROLLER_RUNTIME),
    Bar("review_validate_us", 0.5, of=CONTROLLER_RUNTIME),
    Bar("review_ms", 1.0, of=CONTROLLER_RUNTIME),
    Bar("import_ms", 150),
    Bar("import_operator_ms", 150),
    *(Bar(f"{call}_us", 1.0, of=REAL, ours=EMBEDDED) for call in ("create", "get", "merge_patch", "apply", "list")),
)


def judge(bars: Iterable[Bar], figures: Iterable[Figure], medians: Medians) -> list[Verdict]:
    """Return a verdict for each bar whose figures were measured."""
    titles = {figure.name: figure.title for figure in figures}
    found: list[Verdict] = []
    for bar in bars:
        values = medians.get(bar.figure, {})
        if bar.ours not in values or (bar.of and not values.get(bar.of)):
            continue
        measured = values[bar.ours] / (values[bar.of] if bar.of else 1)
        found.append(Verdict(_stated(titles[bar.figure], bar), measured, measured <= bar.at_most))
    return found


def table(verdicts: Sequence[Verdict]) -> str:
    rows = [(each.bar, f"{each.measured:.2f}", "holds" if each.holds else "MISSED") for each in verdicts]
    return lined([("bar", "measured", ""), *rows])


def _stated(title: str, bar: Bar) -> str:
    return f"{title} <= {bar.at_most:g}{f' of {bar.of}' if bar.of else ''}"
