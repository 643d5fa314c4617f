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
The embedded control plane can also run Pods as processes in [a sandbox](controlplane.md#the-sandbox).
With agnhost and busybox as such images, {processes} of the other cases pass.
[Cases](#cases) says for each case what it needs.

This page is generated from recorded results.

## Areas

The columns about the embedded control plane divide all cases of an area:
those that pass with simulated Pods, those of the others that pass with processes,
those that need running containers and do not pass, and those that fail for another reason.

"""
_COMMANDS: Final = """

## Run it

    make kubernetes-conformance
    make kubernetes-conformance ARGS='--area sig-apps --needs api --needs controllers'
    make kubernetes-conformance ARGS='--target real --focus FieldValidation'
    make kubernetes-conformance ARGS='--passed-on real'
    make kubernetes-conformance ARGS='--target processes --not-passed-on embedded --record'

`--passed-on real` runs the cases that passed on the real control plane.
`--not-passed-on embedded` runs those without a recorded pass on the embedded one.
`--list` prints the cases, and `--record` writes the results and this page.
The output of each case is in `build/kubernetes-conformance`.
The build needs Go 1.26.
The target `processes` needs `bash`, `bind9-dnsutils`, `bubblewrap`, `busybox-static` and `curl`.
CI runs the cases that need an API server alone. All cases together take about an hour or more.
Each difference that the suite found has a case in `tests/conformance` or a unit test, which CI runs.
"""
_REASON: Final = 160
"""Characters of a recorded reason that are shown."""
_BRACKET: Final = r"\["
"""A bracket that does not begin a link."""


class Page:
    """The page of the latest results."""

    def __init__(self) -> None:
        self._real, self._embedded, self._processes = map(Results.read, ("real", "embedded", "processes"))
        self._names = sorted(self._real.cases.keys() | self._embedded.cases.keys())

    def render(self) -> str:
        passed = [name for name in self._names if self._embedded.has_passed(name)]
        text = _INTRODUCTION.format(
            total=len(self._names),
            version=self._real.version,
            real=sum(map(self._real.has_passed, self._names)),
            embedded=len(passed),
            processes=sum(map(self._needs_processes, self._names)),
            both=sum(map(self._real.has_passed, passed)),
        )
        return text + "\n".join([*self._areas(), *self._runs()]) + _COMMANDS + "\n".join(self._cases()) + "\n"

    def _needs_processes(self, name: str) -> bool:
        return self._processes.has_passed(name) and not self._embedded.has_passed(name)

    def _areas(self) -> Iterator[str]:
        yield "| area | cases | real | embedded, simulated Pods | embedded, processes | needs containers | failed |"
        yield "|---|---|---|---|---|---|---|"
        for area in sorted({area_of(name) for name in self._names}):
            yield self._area(area, [name for name in self._names if area_of(name) == area])
        yield self._area("all", self._names)

    def _area(self, title: str, names: list[str]) -> str:
        passed = sum(map(self._embedded.has_passed, names))
        run = sum(map(self._needs_processes, names))
        hindered = sum(self._is_hindered(name) for name in names)
        real = sum(map(self._real.has_passed, names))
        cells = (len(names), real, passed, run, hindered, len(names) - passed - run - hindered)
        return f"| {title} | {' | '.join(map(str, cells))} |"

    def _is_hindered(self, name: str) -> bool:
        passed = self._embedded.has_passed(name) or self._processes.has_passed(name)
        return not passed and obstacle_to(name) is not None

    def _runs(self) -> Iterator[str]:
        yield (
            "\nThe results are from several runs, each with its own time limits. "
            "A case that exceeded its limit might pass with more time.\n"
        )
        yield "| control plane | last run | cases with a result | passed | failed | over the limit | last command |"
        yield "|---|---|---|---|---|---|---|"
        for results in (self._real, self._embedded, self._processes):
            states = [each.state for each in results.cases.values()]
            counts = [len(states), *(states.count(state) for state in ("passed", "failed", "timeout"))]
            yield f"| {results.target} | {results.date} | {' | '.join(map(str, counts))} | `{results.command}` |"

    def _cases(self) -> Iterator[str]:
        yield "\n## Cases\n"
        yield "A case that passes on neither embedded control plane has the reason in the last column."
        for area in sorted({area_of(name) for name in self._names}):
            yield f"\n### {area}\n"
            yield "| case | real | embedded | processes | needs, or fails with |"
            yield "|---|---|---|---|---|"
            yield from (self._case(name) for name in self._names if area_of(name) == area)

    def _case(self, name: str) -> str:
        title = name.removeprefix(f"[{area_of(name)}] ").removesuffix(" [Conformance]")
        states = (_state(name, results) for results in (self._real, self._embedded, self._processes))
        return f"| {_cell(title.replace('[', _BRACKET))} | {' | '.join(states)} | {_cell(self._why(name))} |"

    def _why(self, name: str) -> str:
        if self._embedded.has_passed(name) or self._processes.has_passed(name) or name not in self._embedded.cases:
            return ""
        recorded = self._embedded.cases[name].reason
        shown = f"{recorded[:_REASON]} ..." if len(recorded) > _REASON else recorded
        return obstacle_to(name) or f"`{shown.replace('`', chr(39))}`"


def _state(name: str, results: Results) -> str:
    return results.cases[name].state if name in results.cases else ""


def _cell(text: str) -> str:
    """Return text for a cell of a table."""
    return text.replace("|", "\\|").replace("*", "\\*")


def write() -> None:
    PAGE.write_text(Page().render())


def main() -> int:
    if "--check" not in sys.argv:
        write()
    elif PAGE.read_text() != Page().render():
        print("docs/kubernetes-conformance.md differs from the results; run `make generate`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
