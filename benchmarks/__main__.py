"""`python -m benchmarks`: measure, print tables and targets, and write the figures to `benchmarks/results`.

Needs the real control plane (`make controlplane`), Go and Rust for the peers that are written in them, and valgrind for
counts of instructions. The program reports missing tools and measures the rest.

Exit status
    0   everything was measured, whatever the bars say
    1   something could not be measured, or the run was stopped
    2   an argument is wrong
    3   with --strict: a bar is not held
    4   with --strict: no bar is missed, but some are not decided
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks import history, machine, report
from benchmarks.bars import BARS, State, Verdict, judge
from benchmarks.bars import table as verdict_table
from benchmarks.history import Part
from benchmarks.interpreters import interpreter
from benchmarks.peers import Peer
from benchmarks.peers.build import BY_DEFAULT, NAMES, build, build_for
from benchmarks.report import NotMeasured, PartlyMeasured, say
from benchmarks.sections import INSTRUCTIONS, SECTIONS, Sizes
from benchmarks.workloads import WORKLOADS
from kubewright.machinery.errors import KubewrightError
from kubewright.machinery.json import JSONObject
from kubewright.manager._program import loop_factory

RESULTS: Final = Path(__file__).resolve().parent / "results"

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
    repetitions=5,
)


async def _measure(sections: Sequence[str], peers: Sequence[Peer], sizes: Sizes) -> tuple[dict[str, Part], bool]:
    """Return what was measured by section, and whether it is complete. Failures have been printed."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    parts: dict[str, Part] = {}
    complete = True
    for name in sections:
        section = SECTIONS[name]
        say(f"{name}: {section.title}")
        try:
            found = await section.measure([each for each in peers if each.name not in section.without], sizes)
        except PartlyMeasured as part:
            found = part.measured
            complete = False
        except (KubewrightError, NotMeasured, TimeoutError) as error:
            say(f"{name} could not be measured: {error or 'timed out'}")
            complete = False
            continue
        if found.rounds:
            parts[name] = Part(found, section.figures(sizes), section.yardstick)
    return parts, complete


def _tables(parts: Mapping[str, Part]) -> str:
    """Return a table for each section, and what its asterisks mean."""
    tables: list[str] = []
    for name, part in parts.items():
        text = report.table("median ± spread", part.figures, part.measured, yardstick=part.yardstick)
        tables.append("\n".join(filter(None, [SECTIONS[name].title, "", text, report.disturbances(part.measured)])))
    return "\n\n".join(tables)


def _verdicts(parts: Mapping[str, Part]) -> list[Verdict]:
    return [verdict for part in parts.values() for verdict in judge(BARS, part.figures, part.measured)]


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _size(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 500:
        raise argparse.ArgumentTypeError(
            f"must be from 0 to 500, because etcd limits an object to 1.5 MB, got {number}"
        )
    return number


def _sample_size(text: str) -> int:
    if (number := _count(text)) < 100:
        raise argparse.ArgumentTypeError(f"must be at least 100 for a meaningful result, got {number}")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure Kubewright and comparable toolkits. A complete run takes 30 minutes.",
        epilog="Exit status: 0 if everything was measured; 1 if something could not be measured; 2 for a wrong "
        "argument; with --strict also 3 if a bar is not held, and 4 if none is missed but some are not decided.",
    )
    parser.add_argument("--only", action="append", choices=list(SECTIONS), help="measure only this part (repeatable)")
    parser.add_argument("--peer", action="append", choices=NAMES, help="measure only this toolkit (repeatable)")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="PATH",
        help="measure Kubewright with this interpreter too, next to the one that runs the benchmark (repeatable)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="small numbers, one repetition: two minutes, rough results"
    )
    parser.add_argument(
        "--operator",
        choices=list(WORKLOADS),
        help="; ".join(f"{each.name}: {each.title}" for each in WORKLOADS.values()),
    )
    parser.add_argument("--objects", type=_sample_size, help=f"objects per operator ({_FULL.objects})")
    parser.add_argument("--kilobytes", type=_size, help="size of the message in each object (widgets 0, sites 20)")
    parser.add_argument("--at-once", type=_count, help=f"objects that users write at a time ({_FULL.at_once})")
    parser.add_argument("--pods", type=_sample_size, help=f"Pods in a cache ({_FULL.pods})")
    parser.add_argument("--many", type=_sample_size, help=f"Pods in a large cache ({_FULL.many})")
    parser.add_argument("--requests", type=_sample_size, help=f"requests of each type ({_FULL.requests})")
    parser.add_argument("--webhook-writes", type=_sample_size, help=f"writes through webhooks ({_FULL.webhook_writes})")
    parser.add_argument("--converted", type=_sample_size, help=f"objects in a converted list ({_FULL.converted})")
    parser.add_argument("--reviews", type=_sample_size, help=f"admission reviews of each type ({_FULL.reviews})")
    parser.add_argument("--repetitions", type=_count, help=f"rounds of everything ({_FULL.repetitions})")
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FOLDER",
        help="write latest.json and add a line to history.jsonl there (benchmarks/results, if the toolkits, the "
        "operator and the sizes are the default ones; otherwise nothing is written)",
    )
    parser.add_argument("--strict", action="store_true", help="exit with 3 or 4 unless every bar is held")
    return parser


def _sizes(arguments: argparse.Namespace) -> Sizes:
    given = {name: value for name in asdict(_FULL) if (value := getattr(arguments, name)) is not None}
    sizes = replace(_QUICK if arguments.quick else _FULL, **given)
    return sizes if "kilobytes" in given else replace(sizes, kilobytes=WORKLOADS[sizes.operator].kilobytes)


def _folder(arguments: argparse.Namespace, sizes: Sizes) -> Path | None:
    """Return where to write the results. None if they would not be comparable with those of other runs."""
    if arguments.results is not None:
        return Path(arguments.results)
    is_standard = replace(sizes, repetitions=_FULL.repetitions) == _FULL and not arguments.peer and not arguments.python
    return RESULTS if is_standard and sizes.repetitions > 1 else None


def _about(peers: Sequence[Peer]) -> JSONObject:
    """Return when, where and with which versions the run measured."""
    this = interpreter()
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": history.commit(),
        "machine": platform.machine(),
        **machine.description(),
        "load": round(machine.load_average(), 1),
        "python": platform.python_version(),
        "interpreter": str(this),
        "versions": {peer.name: peer.version for peer in peers},
    }


def _peers(arguments: argparse.Namespace, sections: Sequence[str]) -> list[Peer]:
    """Build the toolkits that the sections measure."""
    wanted = arguments.peer or BY_DEFAULT
    peers = build([name for name in wanted if any(name not in SECTIONS[each].without for each in sections)])
    return peers + [peer for path in arguments.python if (peer := build_for(path)) is not None]


def _status(verdicts: Sequence[Verdict], *, complete: bool, strict: bool) -> int:
    """Return the exit status, which the module describes."""
    if not complete:
        return 1
    states = {verdict.state for verdict in verdicts} if strict else set[State]()
    return 3 if State.NOT_HELD in states else 4 if State.NOT_DECIDED in states else 0


def _keep(
    folder: Path | None, about: JSONObject, sizes: Sizes, parts: Mapping[str, Part], verdicts: list[Verdict]
) -> None:
    """Write the results, unless they are not comparable with those of other runs."""
    if folder is None:
        say("Results not written: toolkits, operator or sizes are not the default ones. --results FOLDER writes them")
        return
    history.write_latest(folder, about, asdict(sizes), parts, verdicts)
    history.append(folder, history.entry(about | {"sizes": asdict(sizes)}, parts))
    say(f"Results written to {folder}")


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    if sys.platform != "linux":
        parser.error("CPU time is read from Linux interfaces; run the benchmarks on Linux")
    sizes = _sizes(arguments)
    sections = arguments.only or list(SECTIONS)
    peers = _peers(arguments, sections)
    about = _about(peers)
    print(f"{about['cpu']}, {about['cpus']} CPUs; commit {about['commit']}; {about['interpreter']}", flush=True)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            parts, complete = runner.run(_measure(sections, peers, sizes))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("Stopped; no results were written")
        return 1
    if not parts:
        return 1
    verdicts = _verdicts(parts)
    print("\n" + _tables(parts))
    if verdicts:
        print(f"\n{verdict_table(verdicts)}")
    if changes := _changes(about, parts):
        print(f"\n{changes}")
    _keep(_folder(arguments, sizes), about, sizes, parts, verdicts)
    return _status(verdicts, complete=complete, strict=arguments.strict)


def _changes(about: JSONObject, parts: Mapping[str, Part]) -> str:
    """Return the changes of counted instructions since the last run in the repository's history."""
    if (part := parts.get(INSTRUCTIONS)) is None:
        return ""
    return history.compared(RESULTS, history.entry(about, {INSTRUCTIONS: part}), part)


if __name__ == "__main__":
    sys.exit(main())
