"""Writes docs/kubernetes-conformance.md from the recorded results: `python -m tools.kubernetes_conformance.page`.

With `--check`, the module only reports whether the page is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.kubernetes_conformance.cases import area_of
from tools.kubernetes_conformance.record import Results

PAGE: Final = Path(__file__).parents[2] / "docs" / "kubernetes-conformance.md"

_INTRODUCTION: Final = """# Kubernetes' conformance suite

Kubernetes has a conformance suite: {total} cases in version {version}.
`make kubernetes-conformance` builds it from Go modules and runs it on the embedded control plane, or on a real one.
The Pods of both control planes are simulated.
Cases that read the output of containers, connect to Pods, or wait until a container ends fail there,
or exceed their time limit.

"Real" is a real kube-apiserver with its controllers and scheduler, and nodes simulated by kwok.
The columns about the embedded control plane count only the cases that passed on the real one.
This page is generated from recorded results.
A case that is "not run" has no recorded result on the embedded control plane.
The recorded run there was stopped before its end, so these figures are a first part.

"""
_COMMANDS: Final = """

## Run it

    make kubernetes-conformance
    make kubernetes-conformance ARGS='--area sig-apps --needs api --needs controllers'
    make kubernetes-conformance ARGS='--target real --focus FieldValidation'

`--list` prints the cases, and `--record` writes the results and this page.
The output of each case is in `build/kubernetes-conformance`.
The build needs Go 1.26.
CI does not run the suite, because all cases together take about an hour or more.
"""


def render() -> str:
    real, embedded = Results.read("real"), Results.read("embedded")
    names = sorted(real.cases.keys() | embedded.cases.keys())
    text = _INTRODUCTION.format(total=len(names), version=real.version)
    return (
        text + "\n".join([*_areas(names, real, embedded), *_runs(real, embedded), *_failed(real, embedded)]) + _COMMANDS
    )


def _areas(names: list[str], real: Results, embedded: Results) -> Iterator[str]:
    yield "| area | cases | real: passed | embedded: passed | embedded: failed | embedded: not run |"
    yield "|---|---|---|---|---|---|"
    areas = sorted({area_of(name) for name in names})
    for area in areas:
        yield _row(area, [name for name in names if area_of(name) == area], real, embedded)
    yield _row("all", names, real, embedded)


def _row(title: str, names: list[str], real: Results, embedded: Results) -> str:
    expected = [name for name in names if real.has_passed(name)]
    run = [name for name in expected if name in embedded.cases]
    passed = sum(embedded.has_passed(name) for name in run)
    cells = (len(names), len(expected), passed, len(run) - passed, len(expected) - len(run))
    return f"| {title} | {' | '.join(map(str, cells))} |"


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


def _failed(real: Results, embedded: Results) -> Iterator[str]:
    yield "\n## Passed on the real control plane only\n"
    yield "| case | on the embedded one |"
    yield "|---|---|"
    for name, outcome in sorted(embedded.cases.items()):
        if outcome.state != "passed" and real.has_passed(name):
            yield f"| {name.removesuffix(' [Conformance]')} | {outcome.state} after {outcome.seconds:.0f} s |"


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
