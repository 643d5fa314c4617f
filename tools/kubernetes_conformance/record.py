"""The latest outcome of each case on each target, in `results/<target>.json`."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tools.controlplane.build import KUBERNETES_VERSION
from tools.kubernetes_conformance.run import Outcome, State

FOLDER: Final = Path(__file__).with_name("results")


@dataclass
class Recorded:
    state: State
    seconds: float
    reason: str = ""


@dataclass
class Results:
    target: str
    date: str = ""
    """The day of the latest run."""
    version: str = KUBERNETES_VERSION
    command: str = ""
    cases: dict[str, Recorded] = field(default_factory=dict[str, Recorded])
    _added: dict[str, Recorded] = field(default_factory=dict[str, Recorded])

    @classmethod
    def read(cls, target: str) -> Results:
        """Return the recorded results; without cases if there are none of this version."""
        path = _path(target)
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        if found.get("version") != KUBERNETES_VERSION:
            return cls(target)
        cases = {name: Recorded(*outcome) for name, outcome in found["cases"].items()}
        return cls(target, found["date"], found["version"], found["command"], cases)

    def has_passed(self, name: str) -> bool:
        return name in self.cases and self.cases[name].state == "passed"

    def add(self, outcome: Outcome) -> None:
        """Replace the earlier outcome of the case."""
        recorded = Recorded(outcome.state, outcome.seconds, outcome.reason)
        self.cases[outcome.case.name] = self._added[outcome.case.name] = recorded

    def write(self, *, command: str) -> None:
        """Write the results, one case a line. Keeps what other runs have recorded meanwhile."""
        self.cases = Results.read(self.target).cases | self._added
        head = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "version": self.version, "command": command}
        text = "".join(f" {_json(key)}: {_json(value)},\n" for key, value in head.items())
        lines = ",\n".join(f"  {_json(name)}: {_json(_row(self.cases[name]))}" for name in sorted(self.cases))
        path = _path(self.target)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(f'{{\n{text} "cases": {{\n{lines}\n }}\n}}\n')
        unfinished.replace(path)  # in one step, because other runs read it


def _row(recorded: Recorded) -> list[str | float]:
    row: list[str | float] = [recorded.state, recorded.seconds]
    return [*row, recorded.reason] if recorded.reason else row


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _path(target: str) -> Path:
    return FOLDER / f"{target}.json"
