"""Collecting and printing figures: progress on standard error, tables on standard output."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, Protocol, TypeAlias, TypeVar

from benchmarks.intervals import ratio, ratio_interval, spread
from benchmarks.machine import Conditions, Watch
from kubewright.machinery.errors import KubewrightError

Run: TypeAlias = Mapping[str, float]
"""The values of one round, by figure."""
Rounds: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]
"""By figure, then by the name of what was measured: the value of each round. All names have the same rounds."""
Medians: TypeAlias = Mapping[str, Mapping[str, float]]
"""By figure, then by the name of what was measured."""


@dataclass(frozen=True)
class Measured:
    """The figures of a part, and the rounds in which the machine was busy with other work."""

    rounds: Rounds
    disturbed: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """By the name of what was measured: why each disturbed round is one."""

    @property
    def medians(self) -> Medians:
        return {
            figure: {name: median(values) for name, values in of_one.items()} for figure, of_one in self.rounds.items()
        }


class NotMeasured(Exception):
    """Something could not be measured. The message is the reason."""


class PartlyMeasured(NotMeasured):
    """Some subjects could not be measured, others were."""

    def __init__(self, missing: Iterable[str], measured: Measured) -> None:
        super().__init__(f"{', '.join(missing)} could not be measured")
        self.measured = measured


@dataclass(frozen=True)
class Figure:
    """One line of a table."""

    name: str
    title: str
    digits: int
    depends_on_load: bool = True
    """Whether other work on the machine changes it. Times do depend on it, counts and memory do not."""


class Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)

_ABSENT: Final = "-"
_MARK: Final = "*"


def say(text: str) -> None:
    """Print progress."""
    print(text, file=sys.stderr, flush=True)


async def in_turns(
    measured: Sequence[N], repetitions: int, run: Callable[[N], Awaitable[Run]], figures: Sequence[Figure]
) -> Measured:
    """Run each of `measured` several times, in alternating order: forward, backward, forward.

    With several repetitions, a run during which the machine is busy with other work is repeated once, and the quieter
    of both counts. A subject that fails is printed with the reason and not run again. At the end, PartlyMeasured is
    raised for it.
    """
    watch = Watch()
    matters = any(figure.depends_on_load for figure in figures)
    runs: dict[str, list[Run]] = {each.name: [] for each in measured}
    disturbed: dict[str, list[str]] = {}
    failed: set[str] = set()
    for repetition in range(1, repetitions + 1):
        for each in measured if repetition % 2 else reversed(measured):
            if each.name in failed:
                continue
            turn = f"  [{repetition}/{repetitions}] {each.name}"
            try:
                done, found = await _quietest(watch, run, each, turn, attempts=min(repetitions, 2) if matters else 1)
            except (NotMeasured, KubewrightError, TimeoutError) as error:
                failed.add(each.name)
                say(f"{turn} failed: {error or 'timed out'}")
            else:
                runs[each.name].append(done)
                if matters and found.reasons:
                    disturbed.setdefault(each.name, []).append("; ".join(found.reasons))
                say(f"{turn}: {summary(figures, done)}{_MARK if matters and found.reasons else ''}")
    complete = {name: of_one for name, of_one in runs.items() if name not in failed}
    result = Measured(rounds_of(complete), {name: disturbed[name] for name in complete if name in disturbed})
    if failed:
        raise PartlyMeasured(sorted(failed), result)
    return result


async def _quietest(
    watch: Watch, run: Callable[[N], Awaitable[Run]], measured: N, turn: str, *, attempts: int
) -> tuple[Run, Conditions]:
    """Run once, or again while the machine is busy. Return the run with the least disturbance."""
    tried: list[tuple[Run, Conditions]] = []
    while len(tried) < attempts and not (tried and not tried[-1][1].reasons):
        if tried:
            say(f"{turn}: repeated, because {'; '.join(tried[-1][1].reasons)}")
        with watch.watching():
            done = await run(measured)
        tried.append((done, watch.found))
    return min(tried, key=lambda each: each[1].disturbance)


def rounds_of(runs: Mapping[str, Sequence[Run]]) -> Rounds:
    """Return values by figure and name, from runs by name."""
    names = dict.fromkeys(figure for of_one in runs.values() for run in of_one for figure in run)
    return {
        figure: {name: [run[figure] for run in of_one] for name, of_one in runs.items() if figure in of_one[0]}
        for figure in names
    }


def summary(figures: Iterable[Figure], run: Run) -> str:
    """Return a run as one line."""
    return ", ".join(f"{each.name} {run[each.name]:.{each.digits}f}" for each in figures if each.name in run)


def table(title: str, figures: Sequence[Figure], measured: Measured, *, yardstick: str) -> str:
    """Return two lines for each figure: medians with their spread, and ratios to the yardstick with their intervals.

    A figure that depends on load has an asterisk if a round was disturbed.
    """
    shown = [each for each in figures if each.name in measured.rounds]
    names = list(dict.fromkeys(name for each in shown for name in measured.rounds[each.name]))
    rows = [[title, *names]]
    for figure in shown:
        values = measured.rounds[figure.name]
        marked = measured.disturbed.keys() if figure.depends_on_load else set[str]()
        rows.append([figure.title, *(_value(figure, values.get(name), name in marked) for name in names)])
        base = values.get(yardstick)
        ratios = [_ratio(values[name], base) if name in values and name != yardstick else "" for name in names]
        if any(ratios):
            rows.append([f"  of {yardstick}", *ratios])
    return lined(rows)


def disturbances(measured: Measured) -> str:
    """Return what the asterisks of a table mean; empty if no round was disturbed."""
    lines = [
        f"  {name}, {len(reasons)} {'round' if len(reasons) == 1 else 'rounds'}: {reasons[-1]}"
        for name, reasons in measured.disturbed.items()
    ]
    return "\n".join([f"{_MARK} do not trust: the machine was busy with other work", *lines]) if lines else ""


def lined(rows: Sequence[Sequence[str]]) -> str:
    """Return a header, a rule and the other rows. The first column is left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(_justified(row, widths)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _value(figure: Figure, values: Sequence[float] | None, is_disturbed: bool) -> str:
    """Return a median and its spread, if the values differ: `0.88 ±2%`."""
    if not values:
        return _ABSENT
    text = f"{median(values):.{figure.digits}f}"
    if min(values) < max(values):
        text += f" ±{spread(values):.{0 if spread(values) >= 0.01 else 1}%}"
    return text + (_MARK if is_disturbed else "")


def _ratio(values: Sequence[float], base: Sequence[float] | None) -> str:
    """Return a ratio and its interval, if the ratios differ: `0.52 (0.50-0.55)`. Returns "" if there is no ratio."""
    if base is None or (middle := ratio(values, base)) is None:
        return ""
    interval = ratio_interval(values, base)
    if interval is None or interval.low == interval.high:
        return f"{middle:.2f}"
    digits = 3 if interval.high - interval.low < 0.01 else 2
    return f"{middle:.{digits}f} ({interval.low:.{digits}f}-{interval.high:.{digits}f})"


def _justified(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
