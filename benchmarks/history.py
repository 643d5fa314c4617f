"""The results of runs in a folder: the latest with all figures, and one line for each run.

latest.json     figures by part, with the values of all rounds. Figures of parts that a run did not measure stay from
                earlier runs with the same sizes
history.jsonl   one line for each run: date, commit, machine, interpreter, and Kubewright's figures with their intervals
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.bars import EMBEDDED, Verdict
from benchmarks.intervals import ratio, ratio_interval, spread
from benchmarks.peers import KUBEWRIGHT
from benchmarks.report import Figure, Measured, lined
from kubewright.machinery.json import JSONObject, read_object

LATEST: Final = "latest.json"
HISTORY: Final = "history.jsonl"

_DIGITS: Final = 5
_PARTS_OF_LATEST: Final = ("rounds", "disturbed")


@dataclass(frozen=True)
class Part:
    """What a run measured in one section."""

    measured: Measured
    figures: Sequence[Figure]
    yardstick: str


def commit() -> str:
    """Return the commit of this checkout, with `+` if files have changed since; empty without git."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(
            ("git", "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*"),
            cwd=here,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()


def write_latest(
    folder: Path, about: JSONObject, sizes: JSONObject, parts: Mapping[str, Part], verdicts: Iterable[Verdict]
) -> None:
    """Write `latest.json`. Parts that were measured earlier with the same sizes stay."""
    kept = _earlier(folder / LATEST, sizes)
    medians = {name: part.measured.medians for name, part in parts.items()}
    sections = {name: value for name, value in kept.items() if name not in {"about", "bars", *_PARTS_OF_LATEST}}
    judged = [asdict(each) for each in verdicts]
    names = {each["bar"] for each in judged}
    document: JSONObject = {
        "about": about | {"versions": kept.get("about", {}).get("versions", {}) | about["versions"], **sizes},
        "cpu_ms_per_object": {},
        **sections,
        **medians,
        "rounds": kept.get("rounds", {}) | {name: part.measured.rounds for name, part in parts.items()},
        "disturbed": {name: reasons for name, reasons in kept.get("disturbed", {}).items() if name not in parts}
        | {name: part.measured.disturbed for name, part in parts.items() if part.measured.disturbed},
        "bars": [*(each for each in kept.get("bars", ()) if each["bar"] not in names), *judged],
    }
    document["cpu_ms_per_object"] = document.get("operators", {}).get("cpu_ms_created", {})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LATEST).write_text(json.dumps(document, indent=2) + "\n")


def _earlier(file: Path, sizes: JSONObject) -> JSONObject:
    """Return the results of an earlier run with the same sizes; empty if there are none."""
    if not file.exists():
        return {}
    found = read_object(file.read_bytes())
    return found if all(found["about"].get(name) == size for name, size in sizes.items()) else {}


def entry(about: JSONObject, parts: Mapping[str, Part]) -> JSONObject:
    """Return a run as one line of the history: Kubewright's figures, and their ratios to the reference."""
    disturbed = {name: sorted(part.measured.disturbed) for name, part in parts.items() if part.measured.disturbed}
    figures: JSONObject = {}
    for part in parts.values():
        for figure, values in part.measured.rounds.items():
            figures[figure] = {
                name: _facts(of_one, part.yardstick, values.get(part.yardstick))
                for name, of_one in values.items()
                if is_ours(name)
            }
    return about | {"disturbed": disturbed, "figures": figures}


def is_ours(name: str) -> bool:
    """Return whether a name is one of Kubewright's rows, not one of a peer."""
    return name.startswith((KUBEWRIGHT, EMBEDDED))


def _facts(values: Sequence[float], yardstick: str, base: Sequence[float] | None) -> JSONObject:
    """Return a figure with its spread, and its ratio with its interval, as far as they exist."""
    facts: JSONObject = {"median": _rounded(median(values)), "rounds": len(values)}
    if len(values) > 1:
        facts["spread"] = _rounded(spread(values))
    if base is None or base is values or (middle := ratio(values, base)) is None:
        return facts
    facts |= {"of": yardstick, "ratio": _rounded(middle)}
    if (interval := ratio_interval(values, base)) is not None:
        facts |= {"low": _rounded(interval.low), "high": _rounded(interval.high)}
    return facts


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def append(folder: Path, line: JSONObject) -> None:
    """Add a run to the history."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / HISTORY).open("a") as file:
        file.write(json.dumps(line, separators=(",", ":")) + "\n")


def entries(folder: Path) -> Iterator[JSONObject]:
    """Read all runs, oldest first."""
    file = folder / HISTORY
    for line in file.read_bytes().splitlines() if file.exists() else ():
        yield read_object(line)


def compared(folder: Path, line: JSONObject, part: Part) -> str:
    """Return a table of changes since the last run with the same figures and the same interpreter; empty without one.

    It is for counts, which do not depend on the machine.
    """
    titles = {figure.name: figure.title for figure in part.figures}
    earlier = [
        each
        for each in entries(folder)
        if each.get("interpreter") == line["interpreter"] and titles.keys() & each["figures"].keys()
    ]
    if not earlier:
        return ""
    last = earlier[-1]
    rows = [(f"change since {last['at'][:10]}, commit {last['commit']}", "then", "now", "change")]
    for figure, of_figure in line["figures"].items():
        for name, now in of_figure.items() if figure in titles else ():
            if then := last["figures"].get(figure, {}).get(name):
                title = f"{titles[figure]}{'' if name in (KUBEWRIGHT, EMBEDDED) else f', {name}'}"
                change = f"{now['median'] / then['median'] - 1:+.1%}"
                rows.append((title, f"{then['median']:,.1f}", f"{now['median']:,.1f}", change))
    return lined(rows)
