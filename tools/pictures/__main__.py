"""Writes the pictures, or checks them: `python -m tools.pictures [--check]`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from tools.pictures import architecture, charts, event, trends, tutorial, versions, write
from tools.pictures.drawing import THEMES, Drawing, Theme

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "docs" / "pictures"
RESULTS: Final = ROOT / "benchmarks" / "results" / "latest.json"
HISTORY: Final = RESULTS.with_name("history.jsonl")

DRAWN: Final[dict[str, Callable[[Theme], Drawing]]] = {
    "architecture": architecture.draw,
    "event": event.draw,
    "write": write.draw,
    "tutorial": tutorial.draw,
    "versions": versions.draw,
}


def pictures(results: Path = RESULTS, history: Path = HISTORY) -> dict[str, str]:
    """Return every picture, by the name of its file."""
    drawn = dict(DRAWN)
    measured = charts.read(results) if results.is_file() else {}
    for name, chart in charts.CHARTS.items():
        if charts.is_measured(chart, measured):
            drawn[name] = partial(charts.draw, chart, measured)
    if runs := trends.read(history) if history.is_file() else []:
        drawn["bench-history"] = partial(trends.draw, runs)
    return {f"{name}{theme.suffix}.svg": draw(theme).svg() for name, draw in drawn.items() for theme in THEMES}


def main(arguments: list[str], folder: Path = FOLDER) -> int:
    if arguments not in ([], ["--check"]):
        sys.exit("usage: python -m tools.pictures [--check]")
    stale = {
        name: svg
        for name, svg in pictures().items()
        if not (folder / name).is_file() or (folder / name).read_text() != svg
    }
    for name, svg in stale.items():
        if arguments:
            print(f"docs/pictures/{name} is out of date; run `make pictures`")
        else:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(svg)
            print(f"wrote docs/pictures/{name}")
    return 1 if stale and arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
