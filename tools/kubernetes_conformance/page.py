"""Writes docs/kubernetes-conformance.md from the recorded results: `python -m tools.kubernetes_conformance.page`.

With `--check`, the module only reports whether the page is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.kubernetes_conformance.cases import area_of
from tools.kubernetes_conformance.obstacles import obstacle_to
from tools.kubernetes_conformance.record import Results

PAGE: Final = Path(__file__).parents[2] / "docs" / "kubernetes-conformance.md"

_INTRODUCTION: Final = """# Kubernetes' conformance suite

Kubernetes has a conformance suite: {total} cases in version {version}.
`make kubernetes-conformance` builds it from Go modules and runs it on the embedded control plane, or on a real one.
Of these cases, the embedded control plane passes {embedded}.
A real control plane passes {real}, of which the embedded one passes {both}.
"Real" is a real kube-apiserver with its controllers and scheduler, and nodes simulated by kwok.

The Pods of both control planes are simulated: they are scheduled, start, become ready and end, but nothing is executed.
So most of the other cases cannot pass there.
They read what containers print, run commands in containers, or connect to Pods.
[Cases](#cases) says for each case what it needs.

This page is generated from recorded results.

## Areas

The columns about the embedded control plane divide all cases of an area:
those that pass, those that need running containers and do not pass, and those that fail for another reason.

"""
_COMMANDS: Final = """

## Run it

    make kubernetes-conformance
    make kubernetes-conformance ARGS='--area sig-apps --needs api --needs controllers'
    make kubernetes-conformance ARGS='--target real --focus FieldValidation'
    make kubernetes-conformance ARGS='--passed-on real'
    make kubernetes-conformance ARGS='--not-passed --record'

`--passed-on real` runs the cases that passed on the real control plane.
`--not-passed` runs those without a recorded pass.
`--list` prints the cases, and `--record` writes the results and this page.
The output of each case is in `build/kubernetes-conformance`.
The build needs Go 1.26.
CI does not run the suite, because all cases together take about an hour or more.
Each difference that the suite found has a case in `tests/conformance` or a unit test, which CI runs.
"""
_REASON: Final = 160
"""Characters of a recorded reason that are shown."""


def render() -> str:
    real, embedded = Results.read("real"), Results.read("embedded")
    names = sorted(real.cases.keys() | embedded.cases.keys())
    passed = [name for name in names if embedded.has_passed(name)]
    text = _INTRODUCTION.format(
        total=len(names),
        version=real.version,
        real=sum(map(real.has_passed, names)),
        embedded=len(passed),
        both=sum(map(real.has_passed, passed)),
    )
    return (
        text
        + "\n".join([*_areas(names, real, embedded), *_runs(real, embedded)])
        + _COMMANDS
        + _cases(names, real, embedded)
    )


def _areas(names: list[str], real: Results, embedded: Results) -> Iterator[str]:
    yield "| area | cases | real: passed | embedded: passed | embedded: needs containers | embedded: failed |"
    yield "|---|---|---|---|---|---|"
    for area in sorted({area_of(name) for name in names}):
        yield _area(area, [name for name in names if area_of(name) == area], real, embedded)
    yield _area("all", names, real, embedded)


def _area(title: str, names: list[str], real: Results, embedded: Results) -> str:
    others = [name for name in names if not embedded.has_passed(name)]
    hindered = sum(_needs_containers(name, embedded) for name in others)
    passed = len(names) - len(others)
    cells = (len(names), sum(map(real.has_passed, names)), passed, hindered, len(others) - hindered)
    return f"| {title} | {' | '.join(map(str, cells))} |"


def _needs_containers(name: str, results: Results) -> bool:
    return not results.has_passed(name) and obstacle_to(name) is not None


def _runs(real: Results, embedded: Results) -> Iterator[str]:
    yield (
        "\nThe results are from several runs, each with its own time limits. "
        "A case that exceeded its limit might pass with more time.\n"
    )
    yield "| control plane | last run | cases with a result | passed | failed | over the limit | last command |"
    yield "|---|---|---|---|---|---|---|"
    for results in (real, embedded):
        states = [each.state for each in results.cases.values()]
        counts = [len(states), *(states.count(state) for state in ("passed", "failed", "timeout"))]
        yield f"| {results.target} | {results.date} | {' | '.join(map(str, counts))} | `{results.command}` |"


def _cases(names: list[str], real: Results, embedded: Results) -> str:
    lines = ["\n## Cases\n"]
    lines.append("A case that does not pass on the embedded control plane has the reason in the last column.")
    for area in sorted({area_of(name) for name in names}):
        lines += [f"\n### {area}\n", "| case | real | embedded | needs, or fails with |", "|---|---|---|---|"]
        lines += [_case(name, real, embedded) for name in names if area_of(name) == area]
    return "\n".join(lines) + "\n"


def _case(name: str, real: Results, embedded: Results) -> str:
    title = name.removeprefix(f"[{area_of(name)}] ").removesuffix(" [Conformance]")
    return f"| {_cell(title)} | {_state(name, real)} | {_state(name, embedded)} | {_cell(_why(name, embedded))} |"


def _state(name: str, results: Results) -> str:
    return results.cases[name].state if name in results.cases else "not run"


def _why(name: str, results: Results) -> str:
    if results.has_passed(name) or name not in results.cases:
        return ""
    recorded = results.cases[name].reason
    shown = f"{recorded[:_REASON]} ..." if len(recorded) > _REASON else recorded
    return obstacle_to(name) or f"`{shown.replace('`', chr(39))}`"


def _cell(text: str) -> str:
    """Return text for a cell of a table."""
    return text.replace("|", "\\|").replace("*", "\\*")


def write() -> None:
    PAGE.write_text(render())


def main() -> int:
    if "--check" not in sys.argv:
        write()
    elif PAGE.read_text() != render():
        print("docs/kubernetes-conformance.md differs from the results; run `make generate`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
