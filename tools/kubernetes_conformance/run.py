"""Runs cases: each in a process of `e2e.test`, which writes a report in JSON."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from tools.kubernetes_conformance.cases import Case

State: TypeAlias = Literal["passed", "failed", "timeout", "skipped"]

_STATES: Final[Mapping[str, State]] = {"passed": "passed", "skipped": "skipped", "timedout": "timeout"}
_GRACE: Final = 30
"""Seconds for a case to clean up after its timeout; after twice as many, its process is killed."""
_REASON: Final = 300
"""Characters of a reason that are kept."""


@dataclass(frozen=True)
class Outcome:
    case: Case
    state: State
    seconds: float
    reason: str = ""
    """The message of the failure, on one line."""


class Suite:
    """The binaries of the suite, and the control plane to run it against."""

    def __init__(self, binaries: Path, kubeconfig: Path, logs: Path, *, limits: Mapping[str, float]) -> None:
        """Each case gets the seconds that `limits` has for what it needs."""
        self._binaries = binaries
        self._kubeconfig = kubeconfig
        self._logs = logs
        self._limits = limits

    async def run(self, cases: Sequence[Case], *, at_once: int) -> AsyncIterator[Outcome]:
        """Run the cases, `at_once` at a time, and yield each outcome when it is known."""
        free = asyncio.Semaphore(at_once)

        async def run(case: Case) -> Outcome:
            async with free:
                return await self._run(case)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(case)) for case in cases if not case.runs_alone]
            for task in asyncio.as_completed(tasks):
                yield await task
        for case in cases:
            if case.runs_alone:
                yield await self._run(case)

    async def _run(self, case: Case) -> Outcome:
        folder = self._logs / re.sub(r"[^A-Za-z0-9]+", "-", case.name).strip("-")[:150]
        folder.mkdir(parents=True, exist_ok=True)
        report = folder / "report.json"
        report.unlink(missing_ok=True)
        limit = self._limits[case.needs]
        with (folder / "log.txt").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                self._binaries / "e2e.test",
                *self._arguments(case, folder, limit),
                cwd=folder,
                env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
            )
            try:
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), limit + 2 * _GRACE)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        reported = _read(report)
        if reported is None:
            killed = process.returncode is not None and process.returncode < 0
            return Outcome(case, "timeout" if killed else "failed", limit, "the process of the case wrote no report")
        return _outcome(case, reported)

    def _arguments(self, case: Case, folder: Path, limit: float) -> tuple[str, ...]:
        return (
            f"--kubeconfig={self._kubeconfig}",
            f"--kubectl-path={self._binaries / 'kubectl'}",
            "--provider=local",
            "--dump-logs-on-failure=false",
            f"--e2e-output-dir={folder}",
            f"--ginkgo.focus={_escaped(case.name)}",
            f"--ginkgo.timeout={limit:.0f}s",
            f"--ginkgo.grace-period={_GRACE}s",
            f"--ginkgo.json-report={folder / 'report.json'}",
            "--ginkgo.no-color",
            "--ginkgo.v",
        )


def _read(report: Path) -> list[dict[str, Any]] | None:
    """Return the report of a run; None if its process ended before the report was complete."""
    try:
        found: list[dict[str, Any]] = json.loads(report.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return found


def _escaped(name: str) -> str:
    """Return a Go regular expression for `name`."""
    return re.sub(r"([^\w\s])", r"\\\1", name)


def _outcome(case: Case, report: list[dict[str, Any]]) -> Outcome:
    """Return the outcome from the report of a run of a single case."""
    specs = report[0]["SpecReports"] or []
    failed = [each for each in specs if each["State"] not in ("passed", "skipped")]
    ran = failed or [each for each in specs if each["LeafNodeType"] == "It" and each["State"] == "passed"]
    ran = ran or [each for each in specs if each.get("Failure", {}).get("Message")]
    if not ran:
        return Outcome(case, "failed", 0, "the suite ran no case of this name")
    state = _STATES.get(ran[0]["State"], "failed")
    message = ran[0].get("Failure", {}).get("Message", "") if state != "passed" else ""
    reason = " ".join(message.split()).replace(str(Path.home()), "~")
    return Outcome(case, state, round(ran[0]["RunTime"] / 1e9, 1), reason[:_REASON])
