"""kubectl and kstatus: what they say about the objects of the table, recorded in recorded.jsonl.

To record their answers: PYTHONPATH=tests python -m health.oracle
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from health.cases import Case, cases

FOLDER: Final = Path(__file__).parent
PROGRAM: Final = FOLDER / "health-oracle"
RECORDED: Final = FOLDER / "recorded.jsonl"
Answer = dict[str, str]
"""`rollout` is done, waiting or error, and empty for kinds without a rollout. `kstatus` is kstatus's word."""


def go_answers(command: Sequence[str | Path], asked: Sequence[Case]) -> list[Answer]:
    """Return what the Go program says."""
    given = "".join(f"{json.dumps(each.document)}\n" for each in asked)
    done = subprocess.run(command, input=given, capture_output=True, text=True, cwd=PROGRAM, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def recorded() -> dict[str, Answer]:
    """Return the recorded answers, by the names of the cases."""
    rows = map(json.loads, RECORDED.read_text().splitlines())
    return {row.pop("name"): row for row in rows}


def main() -> None:
    asked = cases()
    answers = go_answers(("go", "run", "."), asked)
    rows = (json.dumps({"name": each.name, **answer}) for each, answer in zip(asked, answers, strict=True))
    RECORDED.write_text("".join(f"{row}\n" for row in rows))


if __name__ == "__main__":
    main()
