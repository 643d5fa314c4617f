"""The targets of the design, and whether the measured figures meet them.

A bar is held only if the whole interval of its figure is within the limit, and not held only if the whole interval is
above it. Otherwise the rounds do not decide. They do not decide either with a single round, which has no interval, or
if the machine was busy and the figure depends on load. A limit of zero is for counts: one round above it suffices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import Final

from benchmarks.intervals import Interval, mean_interval, ratio, ratio_interval
from benchmarks.peers import CONTROLLER_RUNTIME, KOPF, KUBEWRIGHT, KUBEWRIGHT_ONE_PASS
from benchmarks.report import Figure, Measured, lined


@dataclass(frozen=True)
class Bar:
    """An upper limit for a figure of Kubewright, absolute or relative to the same figure of a peer."""

    figure: str
    at_most: float
    of: str = ""
    """The peer to whose figure `at_most` is a ratio. If empty, `at_most` is absolute."""
    ours: str = KUBEWRIGHT


class State(StrEnum):
    """Whether a bar is held."""

    HELD = "held"
    NOT_HELD = "not held"
    NOT_DECIDED = "not decided"


@dataclass(frozen=True)
class Verdict:
    """A bar compared with the measured figure."""

    bar: str
    measured: float
    low: float | None
    """The limits of the interval. None if a single round was measured."""
    high: float | None
    state: State
    reason: str = ""
    """Why it is not decided."""


EMBEDDED: Final = "embedded"
ON_DISK: Final = "embedded, --data"
REAL: Final = "real"

BARS: Final = (
    Bar("cpu_ms_created", 0.4, of=CONTROLLER_RUNTIME),
    Bar("cpu_ms_created", 0.1, of=KOPF),
    Bar("cpu_ms_updated", 0.4, of=CONTROLLER_RUNTIME),
    Bar("cpu_ms_updated", 0.1, of=KOPF),
    Bar("cpu_ms_created", 0.3, of=CONTROLLER_RUNTIME, ours=KUBEWRIGHT_ONE_PASS),
    Bar("cpu_ms_updated", 0.3, of=CONTROLLER_RUNTIME, ours=KUBEWRIGHT_ONE_PASS),
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


def judge(bars: Iterable[Bar], figures: Iterable[Figure], measured: Measured) -> list[Verdict]:
    """Return a verdict for each bar whose figures were measured."""
    by_name = {figure.name: figure for figure in figures}
    found: list[Verdict] = []
    for bar in bars:
        values = measured.rounds.get(bar.figure, {})
        if bar.ours in values and (not bar.of or any(values.get(bar.of, ()))):
            found.append(_verdict(bar, by_name[bar.figure], values, measured.disturbed))
    return found


def table(verdicts: Sequence[Verdict]) -> str:
    rows = [(each.bar, f"{each.measured:.2f}", _limits(each), each.state.value) for each in verdicts]
    reasons = {each.reason for each in verdicts if each.reason}
    text = lined([("bar", "measured", "95 % interval", ""), *rows])
    return "\n".join([text, *(f"not decided: {reason}" for reason in sorted(reasons))])


def _verdict(
    bar: Bar, figure: Figure, values: Mapping[str, Sequence[float]], disturbed: Mapping[str, Sequence[str]]
) -> Verdict:
    ours = values[bar.ours]
    value: float | None
    if bar.of:
        value, interval = ratio(ours, values[bar.of]), ratio_interval(ours, values[bar.of])
    else:
        value, interval = fmean(ours), mean_interval(ours)
    is_disturbed = figure.depends_on_load and any(name in disturbed for name in (bar.ours, bar.of))
    state, reason = _state(bar, max(ours), interval, is_disturbed=is_disturbed)
    return Verdict(
        bar=_stated(figure.title, bar),
        measured=fmean(ours) if value is None else value,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        state=state,
        reason=reason,
    )


def _state(bar: Bar, largest: float, interval: Interval | None, *, is_disturbed: bool) -> tuple[State, str]:
    """Return the state of a bar, and why it is not decided."""
    if not bar.at_most:
        return State.NOT_HELD if largest > 0 else State.HELD, ""
    if is_disturbed:
        return State.NOT_DECIDED, "the machine was busy with other work (*); run it again when it is quiet"
    if interval is None:
        return State.NOT_DECIDED, "one round has no interval; use --repetitions 3 or more"
    if interval.high <= bar.at_most:
        return State.HELD, ""
    if interval.low > bar.at_most:
        return State.NOT_HELD, ""
    return State.NOT_DECIDED, "the limit is within the interval; more --repetitions make it narrower"


def _limits(verdict: Verdict) -> str:
    return "-" if verdict.low is None else f"{verdict.low:.2f} to {verdict.high:.2f}"


def _stated(title: str, bar: Bar) -> str:
    variant = ", one pass" if bar.ours == KUBEWRIGHT_ONE_PASS else ""
    return f"{title}{variant} <= {bar.at_most:g}{f' of {bar.of}' if bar.of else ''}"
