"""Collecting and printing figures: progress on standard error, tables on standard output."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, Protocol, TypeAlias, TypeVar

from kubewright.machinery.errors import KubewrightError

Run: TypeAlias = Mapping[str, float]
"""The values of one repetition, by figure."""
Medians: TypeAlias = Mapping[str, Mapping[str, float]]
"""By figure, then by the name of what was measured."""


class NotMeasured(Exception):
    """Something could not be measured. The message is the reason."""


class PartlyMeasured(NotMeasured):
    """Some subjects could not be measured, others were."""

    def __init__(self, missing: Iterable[str], medians: Medians) -> None:
        super().__init__(f"{', '.join(missing)} could not be measured")
        self.medians = medians


@dataclass(frozen=True)
class Figure:
    """One line of a table."""

    name: str
    title: str
    digits: int


class Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)

_ABSENT: Final = "-"


def say(text: str) -> None:
    """Print progress."""
    print(text, file=sys.stderr, flush=True)


async def in_turns(
    measured: Sequence[N], repetitions: int, run: Callable[[N], Awaitable[Run]], figures: Sequence[Figure]
) -> Medians:
    """Run each of `measured` several times, in alternating order: forward, backward, forward. Return the medians.

    A subject that fails is printed with the reason and not run again. At the end, PartlyMeasured is raised for it.
    """
    runs: dict[str, list[Run]] = {each.name: [] for each in measured}
    failed: set[str] = set()
    for repetition in range(1, repetitions + 1):
        for each in measured if repetition % 2 else reversed(measured):
            if each.name in failed:
                continue
            try:
                done = await run(each)
            except (NotMeasured, KubewrightError, TimeoutError) as error:
                failed.add(each.name)
                say(f"  [{repetition}/{repetitions}] {each.name} failed: {error or 'timed out'}")
            else:
                runs[each.name].append(done)
                say(f"  [{repetition}/{repetitions}] {each.name}: {summary(figures, done)}")
    medians = medians_of({name: of_one for name, of_one in runs.items() if name not in failed})
    if failed:
        raise PartlyMeasured(sorted(failed), medians)
    return medians


def medians_of(runs: Mapping[str, Sequence[Run]]) -> Medians:
    """Return medians by figure and name, from runs by name."""
    names = dict.fromkeys(figure for of_one in runs.values() for run in of_one for figure in run)
    return {figure: {name: median(run[figure] for run in of_one) for name, of_one in runs.items()} for figure in names}


def summary(figures: Iterable[Figure], run: Run) -> str:
    """Return a run as one line."""
    return ", ".join(f"{each.name} {run[each.name]:.{each.digits}f}" for each in figures if each.name in run)


def table(title: str, figures: Sequence[Figure], medians: Medians, *, yardstick: str) -> str:
    """Return a line for each figure: medians, and their ratios to the yardstick in parentheses."""
    shown = [each for each in figures if each.name in medians]
    names = list(dict.fromkeys(name for each in shown for name in medians[each.name]))
    rows = [[title, *names]]
    for figure in shown:
        values = medians[figure.name]
        base = values.get(yardstick, 0.0)
        rows.append([figure.title, *(_cell(figure, values.get(name), base, name == yardstick) for name in names)])
    return lined(rows)


def lined(rows: Sequence[Sequence[str]]) -> str:
    """Return a header, a rule and the other rows. The first column is left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(_justified(row, widths)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _cell(figure: Figure, value: float | None, base: float, is_yardstick: bool) -> str:
    if value is None:
        return _ABSENT
    text = f"{value:.{figure.digits}f}"
    return text if is_yardstick or not base else f"{text} ({value / base:.2f})"


def _justified(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
