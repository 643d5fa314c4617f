"""`python -m benchmarks`: measure, print tables and targets, and write the figures to `benchmarks/results/latest.json`.

Needs the real control plane (`make controlplane`), and Go and Rust for the peers that are written in them. The program
reports missing tools and measures the rest. The exit status is 1 if something could not be measured.
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
from kubewright.machinery.json import JSONObject, read_object
from kubewright.manager._program import loop_factory

RESULTS: Final = Path(__file__).resolve().parent / "results" / "latest.json"

_QUICK: Final = Sizes(
    objects=200, pods=2000, many=20_000, requests=300, webhook_writes=300, converted=1000, reviews=1000, repetitions=1
)
_FULL: Final = Sizes(
    objects=1000,
    pods=10_000,
    many=100_000,
    requests=1000,
    webhook_writes=10_000,
    converted=10_000,
    reviews=10_000,
    repetitions=3,
)


async def _measure(sections: Sequence[str], peers: Sequence[Peer], sizes: Sizes) -> tuple[dict[str, Medians], bool]:
    """Return the figures by section, and whether they are complete. Failures have been printed."""
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
            say(f"{name} could not be measured: {error or 'timed out'}")
            complete = False
    return results, complete


def _tables(results: Mapping[str, Medians], sizes: Sizes) -> str:
    """Return a table for each yardstick."""
    tables: list[str] = []
    for yardstick in dict.fromkeys(SECTIONS[name].yardstick for name in results):
        names = [name for name in results if SECTIONS[name].yardstick == yardstick]
        figures = [figure for name in names for figure in SECTIONS[name].figures(sizes)]
        title = f"medians (ratios to {yardstick})"
        tables.append(report.table(title, figures, _merged(results[name] for name in names), yardstick=yardstick))
    return "\n\n".join(tables)


def _merged(parts: Iterable[Medians]) -> Medians:
    return {figure: values for part in parts for figure, values in part.items()}


def _keep(results: Mapping[str, Medians], verdicts: Sequence[Verdict], peers: Sequence[Peer], sizes: Sizes) -> None:
    """Write the figures. Those of other sections stay, if they were measured with the same numbers of objects."""
    kept = _earlier(sizes)
    document: JSONObject = {
        "about": {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "versions": kept.get("about", {}).get("versions", {}) | {peer.name: peer.version for peer in peers},
            **asdict(sizes),
        },
        "cpu_ms_per_object": {},
        **{name: kept[name] for name in SECTIONS if name in kept},
        **results,
    }
    document["cpu_ms_per_object"] = document.get("operators", {}).get("cpu_ms_created", {})
    measured = {each.bar for each in verdicts}
    bars = [each for each in kept.get("bars", ()) if each["bar"] not in measured]
    document["bars"] = [*bars, *map(asdict, verdicts)]
    RESULTS.write_text(json.dumps(document, indent=2) + "\n")
    say(f"Results written to {RESULTS}")


def _earlier(sizes: Sizes) -> JSONObject:
    """Return the results of an earlier run with the same sizes; empty if there are none."""
    if not RESULTS.exists():
        return {}
    found = read_object(RESULTS.read_bytes())
    return found if all(found["about"].get(name) == size for name, size in asdict(sizes).items()) else {}


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _sample_size(text: str) -> int:
    if (number := _count(text)) < 100:
        raise argparse.ArgumentTypeError(f"must be at least 100 for a meaningful result, got {number}")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure Kubewright and comparable toolkits. A complete run takes 15 minutes.",
    )
    parser.add_argument("--only", action="append", choices=list(SECTIONS), help="measure only this part (repeatable)")
    parser.add_argument("--peer", action="append", choices=NAMES, help="measure only this toolkit (repeatable)")
    parser.add_argument(
        "--quick", action="store_true", help="small numbers, one repetition: two minutes, rough results"
    )
    parser.add_argument("--objects", type=_sample_size, help=f"Widgets per operator ({_FULL.objects})")
    parser.add_argument("--pods", type=_sample_size, help=f"Pods in a cache ({_FULL.pods})")
    parser.add_argument("--many", type=_sample_size, help=f"Pods in a large cache ({_FULL.many})")
    parser.add_argument("--requests", type=_sample_size, help=f"requests of each type ({_FULL.requests})")
    parser.add_argument("--webhook-writes", type=_sample_size, help=f"writes through webhooks ({_FULL.webhook_writes})")
    parser.add_argument("--converted", type=_sample_size, help=f"objects in a converted list ({_FULL.converted})")
    parser.add_argument("--reviews", type=_sample_size, help=f"admission reviews of each type ({_FULL.reviews})")
    parser.add_argument("--repetitions", type=_count, help=f"repetitions of everything ({_FULL.repetitions})")
    return parser


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    if sys.platform != "linux":
        parser.error("CPU time is read from Linux interfaces; run the benchmarks on Linux")
    given = {name: value for name in asdict(_FULL) if (value := getattr(arguments, name)) is not None}
    sizes = replace(_QUICK if arguments.quick else _FULL, **given)
    sections = arguments.only or list(SECTIONS)
    wanted = arguments.peer or BY_DEFAULT
    peers = build([name for name in wanted if any(name not in SECTIONS[each].without for each in sections)])
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            results, complete = runner.run(_measure(sections, peers, sizes))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("Stopped; no results were written")
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
