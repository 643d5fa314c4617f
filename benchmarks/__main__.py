"""`python -m benchmarks`: measure, print the tables, and keep the figures in `benchmarks/results/latest.json`.

Needs the real control plane (`make controlplane`), and Go for the peer that is written in it. What is missing is said,
and what can be measured without it is. Exit status: 1 when something could not be measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import signal
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks import apiservers, imports, operators
from benchmarks.fleet import NotConverged
from benchmarks.peers import Peer, PeerMissing, controller_runtime_operator, kubewright_operator
from benchmarks.process import ProcessFailed
from benchmarks.report import Medians, say
from kubewright.machinery.errors import ConfigError, DeadlineExceeded
from kubewright.manager.program import loop_factory

RESULTS: Final = Path(__file__).resolve().parent / "results" / "latest.json"

Section = Callable[[argparse.Namespace], Coroutine[Any, Any, dict[str, Medians]]]


async def _operators(arguments: argparse.Namespace) -> dict[str, Medians]:
    say("Operators: the same one in each tool kit, on a real control plane")
    with TemporaryDirectory(prefix="kubewright-bench-") as folder:
        medians = await operators.measure(_peers(Path(folder)), arguments.objects, arguments.repetitions)
    print(operators.table(medians))
    return {"operators": medians}


async def _apiservers(arguments: argparse.Namespace) -> dict[str, Medians]:
    say("API servers: the embedded one beside a real one")
    medians = await apiservers.measure(arguments.requests, arguments.repetitions)
    print(apiservers.table(medians))
    return {"apiservers": medians}


async def _imports(arguments: argparse.Namespace) -> dict[str, Medians]:
    say("Imports: what an operator loads before it does anything")
    medians = await imports.measure(arguments.repetitions)
    print(imports.table(medians))
    return {"imports": medians}


SECTIONS: Final[dict[str, Section]] = {"operators": _operators, "apiservers": _apiservers, "imports": _imports}


def _peers(folder: Path) -> list[Peer]:
    say("Building the peers ...")
    found = [kubewright_operator(folder)]
    try:
        found.append(controller_runtime_operator(folder))
    except PeerMissing as missing:
        say(str(missing))
    return found


async def _measure(arguments: argparse.Namespace) -> dict[str, Any]:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    results: dict[str, Any] = {}
    for name in arguments.only or SECTIONS:
        try:
            results |= await SECTIONS[name](arguments)
        except (ConfigError, DeadlineExceeded, NotConverged, ProcessFailed) as error:
            say(f"{name} could not be measured: {error}")
        print(flush=True)
    if "operators" in results:
        results["cpu_ms_per_object"] = results["operators"]["cpu_ms_created"]
    return results


def _keep(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    about = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "objects": arguments.objects,
        "requests": arguments.requests,
        "repetitions": arguments.repetitions,
    }
    RESULTS.write_text(json.dumps({"about": about, **results}, indent=2) + "\n")
    say(f"Kept in {RESULTS}")


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a number to measure with; give 1 or more")
    return number


def _some(text: str) -> int:
    if (number := _count(text)) < 10:
        raise argparse.ArgumentTypeError(f"{number} say too little; give 10 or more")
    return number


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="What Kubewright costs, beside its peers."
    )
    parser.add_argument("--only", action="append", choices=list(SECTIONS), help="measure this alone (may be repeated)")
    parser.add_argument("--objects", type=_some, default=1000, help="that an operator gets (%(default)s)")
    parser.add_argument("--requests", type=_some, default=1000, help="of each sort that a server gets (%(default)s)")
    parser.add_argument("--repetitions", type=_count, default=3, help="of everything, in turns (%(default)s)")
    arguments = parser.parse_args()
    if sys.platform != "linux":
        parser.error("the CPU of processes is read as Linux tells it; run this on Linux")
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            results = runner.run(_measure(arguments))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("Stopped; nothing is kept of this run")
        return 1
    if not results:
        return 1
    _keep(results, arguments)
    return 0 if results.keys() >= set(arguments.only or SECTIONS) else 1


if __name__ == "__main__":
    sys.exit(main())
