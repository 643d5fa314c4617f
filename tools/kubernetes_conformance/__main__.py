"""Kubernetes' own conformance suite against a control plane: `python -m tools.kubernetes_conformance`.

cases      the cases of the suite, and what each of them needs
targets    the control planes
images     the images that run as processes on the target `processes`
run        one case: a process of `e2e.test`
record     the outcome of each case, in `results/<target>.json`
obstacles  why a case needs running containers
page       docs/kubernetes-conformance.md, from the results

Each case runs in a process of its own, several at a time; cases marked `[Serial]` run alone at the end. The outcomes
replace earlier ones of the same cases with `--record`. The exit status is 1 if a case that needs no containers failed.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tools.controlplane.build import BuildError, build, build_conformance, default_cache
from tools.kubernetes_conformance import page
from tools.kubernetes_conformance.cases import NEEDS, Case, all_cases
from tools.kubernetes_conformance.images import MissingProgramsError, check_programs
from tools.kubernetes_conformance.record import Results
from tools.kubernetes_conformance.run import Outcome, Suite
from tools.kubernetes_conformance.targets import TARGETS

ROOT: Final = Path(__file__).parents[2]
_CONTAINERS: Final = "containers"


def main() -> int:
    arguments = _parser().parse_args()
    try:
        binaries = build_conformance(default_cache()) / "bin"
        if arguments.target == "real":
            build(default_cache())
        if arguments.target == "processes":
            check_programs()
    except (BuildError, MissingProgramsError) as error:
        sys.exit(f"The conformance suite cannot run: {error}")
    cases = list(_chosen(all_cases(binaries), arguments))
    if not cases:
        sys.exit("no case matches; `--list` prints all of them")
    if arguments.list:
        print("\n".join(f"{case.needs:<12}{case.name}" for case in cases))
        return 0
    logs: Path = arguments.logs or ROOT / "build" / "kubernetes-conformance" / arguments.target
    logs = logs.resolve()
    logs.mkdir(parents=True, exist_ok=True)
    return asyncio.run(_run(arguments, binaries, cases, logs))


async def _run(arguments: argparse.Namespace, binaries: Path, cases: Sequence[Case], logs: Path) -> int:
    results = Results.read(arguments.target)
    async with TARGETS[arguments.target](logs) as kubeconfig:
        suite = Suite(binaries, kubeconfig, logs, limits=_limits(arguments))

        async def run(cases: Sequence[Case], at_once: int) -> list[Case]:
            """Run cases. Returns those that need no containers, and failed."""
            failed: list[Case] = []
            async for outcome in suite.run(cases, at_once=at_once):
                if outcome.state != "passed" and outcome.case.needs != _CONTAINERS:
                    failed.append(outcome.case)
                results.add(outcome)
                print(_line(outcome), file=sys.stderr, flush=True)
                if arguments.record:
                    results.write(command=_command())
            return failed

        failed = await run(cases, arguments.at_once)
        if failed and arguments.retry:
            failed = await run(failed, 1)
    if arguments.record:
        page.write()
    return 1 if failed else 0


def _line(outcome: Outcome) -> str:
    reason = f": {outcome.reason}" if outcome.reason else ""
    return f"{outcome.state:<8}{outcome.seconds:>6.1f} s  {outcome.case.name}{reason}"


def _chosen(cases: Sequence[Case], arguments: argparse.Namespace) -> Iterator[Case]:
    focus = re.compile(arguments.focus)
    passed_on = Results.read(arguments.passed_on)
    passed = [Results.read(target) for target in arguments.not_passed_on or ()]
    for case in cases:
        named = focus.search(case.name) and case.area in (arguments.area or (case.area,))
        recorded = passed_on.has_passed(case.name) or not arguments.passed_on
        wanted = recorded and not any(results.has_passed(case.name) for results in passed)
        if named and wanted and case.needs in (arguments.needs or NEEDS):
            yield case


def _limits(arguments: argparse.Namespace) -> dict[str, float]:
    """Return the seconds a case may take, by what it needs."""
    return dict.fromkeys(NEEDS, arguments.timeout) | {_CONTAINERS: arguments.containers_timeout}


def _command() -> str:
    return shlex.join(("make", "kubernetes-conformance", f"ARGS={shlex.join(sys.argv[1:])}"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make kubernetes-conformance", description="Run Kubernetes' own conformance suite on a control plane."
    )
    parser.add_argument("--target", choices=list(TARGETS), default="embedded", help="control plane (%(default)s)")
    parser.add_argument("--focus", default="", metavar="REGEX", help="run only cases whose names match")
    parser.add_argument("--area", action="append", metavar="SIG", help="run only this area: sig-apps (repeatable)")
    parser.add_argument("--needs", action="append", choices=NEEDS, help="run only cases that need this (repeatable)")
    parser.add_argument(
        "--not-passed-on",
        action="append",
        choices=list(TARGETS),
        help="run only cases without a recorded pass on this target (repeatable)",
    )
    parser.add_argument(
        "--passed-on", choices=list(TARGETS), default="", help="run only cases with a recorded pass on this target"
    )
    parser.add_argument("--list", action="store_true", help="print the cases instead of running them")
    parser.add_argument("--at-once", type=int, default=4, metavar="N", help="cases at a time (%(default)s)")
    parser.add_argument("--timeout", type=float, default=900, help="seconds that a case may take (%(default)s)")
    parser.add_argument(
        "--containers-timeout", type=float, default=90, help="the same, for a case that needs containers (%(default)s)"
    )
    parser.add_argument("--retry", action="store_true", help="run failed cases that need no containers again, alone")
    parser.add_argument("--logs", type=Path, help="folder for the output of the cases (build/kubernetes-conformance)")
    parser.add_argument("--record", action="store_true", help="write the outcomes and the page of the documentation")
    return parser


if __name__ == "__main__":
    sys.exit(main())
