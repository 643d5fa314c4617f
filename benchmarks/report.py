"""How figures are told: progress on standard error, tables on standard output."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Medians: TypeAlias = Mapping[str, Mapping[str, float]]
"""By figure, then by who was measured."""


@dataclass(frozen=True)
class Figure:
    """One line of a table."""

    name: str
    title: str
    digits: int
    bar: float | None = None
    """The ratio that must not be exceeded, if there is one."""


def say(text: str) -> None:
    """Tell what is going on."""
    print(text, file=sys.stderr, flush=True)


def table(title: str, figures: Sequence[Figure], medians: Medians, *, ours: str, yardstick: str) -> str:
    """A line for each figure: the medians, and the ratio of ours to the yardstick with the bar it is held against."""
    names = list(medians[figures[0].name])
    compared = yardstick in names
    heads = [title, *names, *(["ratio", "bar"] if compared else [])]
    rows = [heads]
    for figure in figures:
        values = medians[figure.name]
        row = [figure.title, *(f"{values[name]:.{figure.digits}f}" for name in names)]
        if compared:
            ratio = values[ours] / values[yardstick]
            row += [f"{ratio:.2f}", _verdict(ratio, figure.bar)]
        rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(_cells(row, widths)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]


def _verdict(ratio: float, bar: float | None) -> str:
    if bar is None:
        return ""
    return f"<= {bar:g} {'ok' if ratio <= bar else 'MISSED'}"
