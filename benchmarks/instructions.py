"""Instructions of Kubewright for an object, a request, a Pod and an import, counted by valgrind.

A count does not depend on other work on the machine or on its speed. So a change of one percent can be seen on any
machine. A count is not a time: it leaves out the kernel, and says nothing about the CPU's caches.

A program runs with two different numbers of steps, and the difference is divided by the difference of the numbers. This
leaves out the start of the program. Each count is repeated until two runs agree to 0.01 %: what may come in between,
such as a timer or a module that is compiled, only adds instructions. The hashes of strings are fixed (PYTHONHASHSEED),
addresses are not randomized (setarch -R), and garbage collection is off. Valgrind's tool is cachegrind without its
caches, which counts the same instructions as callgrind and is faster.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
import shutil
import sys
from asyncio.subprocess import PIPE
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

import msgspec

from benchmarks.bars import EMBEDDED
from benchmarks.imports import PROGRAMS
from benchmarks.peers import KUBEWRIGHT_ONE_PASS, Peer
from benchmarks.pods import Identity, pod
from benchmarks.report import Figure, Measured, NotMeasured, Run, in_turns
from kubewright.machinery.json import JSONObject

FIGURES: Final = tuple(
    Figure(name, title, 1, depends_on_load=False)
    for name, title in (
        ("instructions_created", "per created object, thousands"),
        ("instructions_updated", "per updated object, thousands"),
        ("instructions_import", "imports of an operator, millions"),
        ("instructions_pod", "per Pod cached, thousands"),
        ("instructions_create", "create, by the API server, thousands"),
        ("instructions_get", "get, thousands"),
        ("instructions_patch", "merge patch, thousands"),
        ("instructions_apply", "server-side apply, thousands"),
    )
)

_AGREEMENT: Final = 1e-4
"""The difference of two counts that agree, relative to the count."""
_TRIES: Final = 5
_REFERENCES: Final = re.compile(rb"I\s+refs:\s+([\d,]+)")
_PODS: Final = 800
_REPLICAS: Final = 20


@dataclass(frozen=True)
class Program:
    """A program of `benchmarks.counted`, and how often it does each step."""

    name: str
    base: Mapping[str, int]
    more: Mapping[str, int]
    """Further times, for each step in a run of its own."""
    figures: Mapping[str, str]
    """By step."""


_RECONCILE: Final = Program(
    "reconcile",
    base={"created": 128, "updated": 0},
    more={"created": 128, "updated": 128},
    figures={"created": "instructions_created", "updated": "instructions_updated"},
)
_SERVER: Final = Program(
    "server",
    base={"create": 96, "get": 32, "patch": 32, "apply": 32},
    more={"create": 64, "get": 512, "patch": 64, "apply": 64},
    figures={step: f"instructions_{step}" for step in ("create", "get", "patch", "apply")},
)
_CACHE: Final = Program(
    "pods", base={"listed": _PODS // 4}, more={"listed": _PODS // 2}, figures={"listed": "instructions_pod"}
)


@dataclass(frozen=True)
class Subject:
    """What runs the programs."""

    name: str
    python: str
    environment: Mapping[str, str]
    programs: Sequence[Program]
    arguments: Sequence[str] = ()
    imports: bool = False


async def measure(peers: Sequence[Peer]) -> Measured:
    """Return the values by figure and subject. Raises NotMeasured without valgrind."""
    _need("valgrind", "install the package `valgrind`")
    _need("setarch", "install the package `util-linux`")
    with TemporaryDirectory(prefix="kubewright-bench-") as name:
        file = Path(name, "pods.jsonl")
        write_events(file)

        async def run(subject: Subject) -> Run:
            return await _run(subject, file)

        return await in_turns(_subjects(peers), 1, run, FIGURES)


def _need(program: str, advice: str) -> None:
    if shutil.which(program) is None:
        raise NotMeasured(f"`{program}` was not found on the PATH; {advice} to count instructions")


def _subjects(peers: Sequence[Peer]) -> list[Subject]:
    """Return the peers that are Kubewright's, and the embedded API server."""
    subjects = [
        Subject(peer.name, peer.python, peer.environment, [_RECONCILE], ["--one-pass"])
        if peer.name == KUBEWRIGHT_ONE_PASS
        else Subject(peer.name, peer.python, peer.environment, [_RECONCILE, _CACHE], imports=True)
        for peer in peers
        if peer.python
    ]
    folder = {"PYTHONPYCACHEPREFIX": peers[0].environment["PYTHONPYCACHEPREFIX"]} if peers else {}
    return [*subjects, Subject(EMBEDDED, sys.executable, folder, [_SERVER])]


async def _run(subject: Subject, file: Path) -> Run:
    """Count everything once, as many programs at a time as there are CPUs."""
    limit = asyncio.Semaphore(os.cpu_count() or 1)
    run: dict[str, float] = {}

    async def count(*arguments: str) -> int:
        async with limit:
            return await _count([subject.python, *arguments], subject.environment)

    for program in subject.programs:
        command = ("-m", "benchmarks.counted", program.name, *subject.arguments, "--file", str(file))
        await _output([subject.python, *command, *_stated(program.base)], subject.environment)  # compiles it
        base, *others = await asyncio.gather(
            count(*command, *_stated(program.base)),
            *(
                count(*command, *_stated({**program.base, step: program.base[step] + more}))
                for step, more in program.more.items()
            ),
        )
        for (step, more), other in zip(program.more.items(), others, strict=True):
            run[program.figures[step]] = (other - base) / more / 1e3
    if subject.imports:
        operator = PROGRAMS["import_operator_ms"]
        await _output([subject.python, "-c", operator], subject.environment)  # compiles it
        bare, imported = await asyncio.gather(count("-c", "pass"), count("-c", operator))
        run["instructions_import"] = (imported - bare) / 1e6
    return run


def _stated(counts: Mapping[str, int]) -> list[str]:
    return [f"{step}={count}" for step, count in counts.items()]


async def _count(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Return the number of instructions of a command, on which two runs agree. Raises NotMeasured if they do not."""
    counts: list[int] = []
    while len(counts) < _TRIES:
        counts = sorted([*counts, await _count_once(command, environment)])
        if len(counts) > 1 and counts[1] - counts[0] <= counts[0] * _AGREEMENT:
            return counts[0]
    raise NotMeasured(f"the counts of {' '.join(command)} do not agree: {', '.join(map(str, counts))}")


async def _count_once(command: Sequence[str], environment: Mapping[str, str]) -> int:
    tool = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
    errors = await _output([*_fixed_addresses(), *tool, *command], environment)
    found = _REFERENCES.search(errors)
    if found is None:
        raise NotMeasured(f"valgrind counted nothing: {errors[-500:].decode(errors='replace')}")
    return int(found[1].replace(b",", b""))


def _fixed_addresses() -> tuple[str, ...]:
    return ("setarch", platform.machine(), "-R")


async def _output(command: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """Run a command in a small environment that is always the same, and return its standard error."""
    kept = {name: environment[name] for name in ("PYTHONPATH", "PYTHONPYCACHEPREFIX") if name in environment}
    process = await asyncio.create_subprocess_exec(
        *command,
        stderr=PIPE,
        cwd=Path(__file__).parents[1],
        env={"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0", **kept},
    )
    try:
        _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise NotMeasured(f"{' '.join(command)} failed:\n{errors[-2000:].decode(errors='replace')}")
    return errors


def write_events(file: Path) -> None:
    """Write a line for each Pod: an event of a watch."""
    file.write_bytes(b"".join(_event(number) for number in range(_PODS)))


def _event(number: int) -> bytes:
    """Return a Pod as a watch sends it. The Pods of a workload differ in what distinguishes replicas."""
    identity = Identity.of(number)
    document = pod(Identity.of(number - number % _REPLICAS))
    document["metadata"] |= {
        "name": identity.name,
        "namespace": "default",
        "uid": identity.uid,
        "resourceVersion": str(100 + number),
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "managedFields": [
            {
                "manager": manager,
                "operation": "Update",
                "apiVersion": "v1",
                "time": "2026-01-02T03:04:05Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": _owned({part: document[part] for part in parts}),
            }
            for manager, parts in (("kube-controller-manager", ("metadata", "spec")), ("kubelet", ("status",)))
        ],
    }
    document["spec"]["nodeName"] = identity.node
    document["status"]["podIP"] = identity.ip
    document["status"]["containerStatuses"][0]["containerID"] = f"containerd://{identity.container}"
    return msgspec.json.encode({"type": "ADDED", "object": document}) + b"\n"


def _owned(value: object) -> JSONObject:
    """Return the fields of a value, as managed fields name them."""
    if isinstance(value, list):
        return {f"k:{number}": _owned(each) for number, each in enumerate(cast("list[object]", value))}
    if isinstance(value, dict):
        return {f"f:{name}": _owned(each) for name, each in cast("JSONObject", value).items()}
    return {}
