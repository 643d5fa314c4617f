"""KUDO 0.19: its answers to questions about packages, recorded in recorded.jsonl and asked again where Go is.

To record them: PYTHONPATH=tests python -m kudo.oracle
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

from kudo.cases import questions

FOLDER: Final = Path(__file__).parent
PROGRAM: Final = FOLDER / "kudo-oracle"
RECORDED: Final = FOLDER / "recorded.jsonl"
Question = dict[str, Any]
Answer = dict[str, Any]


def kudo_answers(command: tuple[str | Path, ...], asked: list[Question]) -> list[Answer]:
    """Return KUDO's answers."""
    given = json.dumps(asked)
    done = subprocess.run(command, input=given, capture_output=True, text=True, cwd=PROGRAM, check=True)
    answers: list[Answer] = json.loads(done.stdout)
    return answers


def recorded() -> dict[str, Answer]:
    """Return KUDO's answers as they were recorded, by the names of the questions."""
    rows = map(json.loads, RECORDED.read_text().splitlines())
    return {row["name"]: row["answer"] for row in rows}


def main() -> None:
    asked = questions()
    answers = kudo_answers(("go", "run", "."), list(asked.values()))
    rows = (json.dumps({"name": name, "answer": answer}) for name, answer in zip(asked, answers, strict=True))
    RECORDED.write_text("".join(f"{row}\n" for row in rows))


if __name__ == "__main__":
    main()
