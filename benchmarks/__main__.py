"""`python -m benchmarks`: measure, print a table and the bars, keep the figures in `benchmarks/results/latest.json`.

Needs the real control plane (`make controlplane`), and Go and Rust for the peers that are written in them. What is
missing is said, and what can be measured without it is. Exit status: 1 when something could not be measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks import report
from benchmarks.bars import BARS, Verdict, judge
from benchmarks.bars import table as verdict_table
from benchmarks.peers import Peer
from benchmarks.peers.build import BY_DEFAULT, NAMES, build
from benchmarks.report import Medians, NotMeasured, PartlyMeasured, say
from benchmarks.sections import SECTIONS, Sizes
from kubewright.machinery.errors import KubewrightError
from kubewright.machinery.json import JSONObject
from kubewright.manager._program import loop_factory

RESULTS: Final = Path(__file__).resolve().parent / "results" / "latest.json"

_QUICK: Final = Sizes(objects=200, pods=2000, many=20_000, requests=300, repetitions=1)
_FULL: Final = Sizes(objects=1000, pods=10_000, many=100_000, requests=1000, repetitions=3)


async def _measure(sections: Sequence[str], peers: Sequence[Peer], sizes: Sizes) -> tuple[dict[str, Medians], bool]:
    """What was measured, by section, and whether that is all; what is not there was said, and why."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    results: dict[str, Medians] = {}
    complete = True
    for name in sections:
        section = SECTIONS[name]
        say(f"{name}: {section.title}")
        try:
            results[name] = await section.measure([each for each in peers if each.name not in section.without], sizes)
        except PartlyMeasured as part:
            results[name] = part.medians
            complete = False
        except (KubewrightError, NotMeasured, TimeoutError) as error:
            say(f"{name} could not be measured: {error or 'it took too long'}")
            complete = False
    return results, complete


def _tables(results: Mapping[str, Medians], sizes: Sizes) -> str:
    """One table for all that has the same yardstick."""
    tables: list[str] = []
    for yardstick in dict.fromkeys(SECTIONS[name].yardstick for name in results):
        names = [name for name in results if SECTIONS[name].yardstick == yardstick]
        figures = [figure for name in names for figure in SECTIONS[name].figures(sizes)]
        title = f"medians (and their ratios to {yardstick})"
        tables.append(report.table(title, figures, _merged(results[name] for name in names), yardstick=yardstick))
    return "\n\n".join(tables)


def _merged(parts: Iterable[Medians]) -> Medians:
    return {figure: values for part in parts for figure, values in part.items()}


def _keep(results: Mapping[str, Medians], verdicts: Sequence[Verdict], peers: Sequence[Peer], sizes: Sizes) -> None:
    document: JSONObject = {
        "about": {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "versions": {peer.name: peer.version for peer in peers},
            **asdict(sizes),
        },
        "cpu_ms_per_object": results.get("operators", {}).get("cpu_ms_created", {}),
        **results,
        "bars": [asdict(each) for each in verdicts],
    }
    RESULTS.write_text(json.dumps(document, indent=2) + "\n")
    say(f"Kept in {RESULTS}")


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a number to measure with; give 1 or more")
    return number


def _some(text: str) -> int:
    if (number := _count(text)) < 100:
        raise argparse.ArgumentTypeError(f"{number} say too little; give 100 or more")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="What Kubewright costs, beside its peers. Everything takes a quarter of an hour.",
    )
    parser.add_argument("--only", action="append", choices=list(SECTIONS), help="measure this alone (may be repeated)")
    parser.add_argument("--peer", action="append", choices=NAMES, help="of these tool kits alone (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="small numbers, once: in two minutes, and rough")
    parser.add_argument("--objects", type=_some, help=f"that an operator gets ({_FULL.objects})")
    parser.add_argument("--pods", type=_some, help=f"in a cache ({_FULL.pods})")
    parser.add_argument("--many", type=_some, help=f"Pods in a cache that holds many ({_FULL.many})")
    parser.add_argument("--requests", type=_some, help=f"of each sort that a server gets ({_FULL.requests})")
    parser.add_argument("--repetitions", type=_count, help=f"of everything, in turns ({_FULL.repetitions})")
    return parser


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    if sys.platform != "linux":
        parser.error("the CPU of processes is read as Linux tells it; run this on Linux")
    given = {name: value for name in asdict(_FULL) if (value := getattr(arguments, name)) is not None}
    sizes = replace(_QUICK if arguments.quick else _FULL, **given)
    sections = arguments.only or list(SECTIONS)
    wanted = arguments.peer or BY_DEFAULT
    peers = build([name for name in wanted if any(name not in SECTIONS[each].without for each in sections)])
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            results, complete = runner.run(_measure(sections, peers, sizes))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("Stopped; nothing is kept of this run")
        return 1
    if not any(results.values()):
        return 1
    figures = [figure for name in results for figure in SECTIONS[name].figures(sizes)]
    verdicts = judge(BARS, figures, _merged(results.values()))
    print(_tables(results, sizes))
    if verdicts:
        print(f"\n{verdict_table(verdicts)}")
    _keep(results, verdicts, peers, sizes)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
