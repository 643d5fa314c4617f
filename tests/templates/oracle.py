"""Go's text/template with Sprig: its answers to templates, recorded in recorded.jsonl and asked again where Go is.

To record them: PYTHONPATH=tests python -m templates.oracle
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kubewright.templates import KUDO, SPRIG, TemplateError, Templates, json_numbers

FOLDER: Final = Path(__file__).parent
PROGRAM: Final = FOLDER / "oracle"
RECORDED: Final = FOLDER / "recorded.jsonl"
VALUES: Final[Any] = json.loads((FOLDER / "values.json").read_text())
SETS: Final[dict[str, Any]] = {"none": {}, "sprig": SPRIG, "kudo": KUDO}
TIMEOUT: Final = "timeout"
_VARIANTS: Final = (("default", False), ("zero", False), ("error", False), ("default", True))
Case = dict[str, Any]
Answer = str | None
"""The text that a template makes; None is an error."""


def corpus() -> Iterator[Case]:
    """Yield the cases of the corpus: one for each line of its files."""
    for path in sorted((FOLDER / "corpus").glob("*.txt")):
        is_language = path.stem == "language"
        for line in filter(None, path.read_text().splitlines()):
            for missing, ints in _VARIANTS if is_language else _VARIANTS[:1]:
                functions = {"language": "none", "format": "none", "yaml": "kudo"}.get(path.stem, "sprig")
                yield {"template": line, "missing": missing, "ints": ints, "functions": functions}


def go_answers(command: tuple[str | Path, ...], cases: list[Case]) -> list[Answer]:
    """Return Go's answers. A template that takes Go too long has the answer `timeout`."""
    given = json.dumps([{**case, "values": VALUES} for case in cases])
    done = subprocess.run(command, input=given, capture_output=True, text=True, cwd=PROGRAM, check=True)
    return [_answer(each) for each in json.loads(done.stdout)]


def _answer(found: dict[str, str]) -> Answer:
    if error := found.get("error"):
        return TIMEOUT if error == TIMEOUT else None
    return base64.b64decode(found["output"]).decode("utf-8", "surrogateescape")


def answer(case: Case) -> Answer:
    """Return our answer."""
    try:
        templates = Templates(SETS[case["functions"]], missing_key=case["missing"])
        templates.parse("file", case["template"])
        text = templates.render("file", VALUES if case["ints"] else json_numbers(VALUES))
    except TemplateError:
        return None
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def recorded() -> list[tuple[Case, Answer]]:
    """Return the cases and Go's answers as they were recorded."""
    rows = map(json.loads, RECORDED.read_text().splitlines())
    return [({key: row[key] for key in ("template", "missing", "ints", "functions")}, row["answer"]) for row in rows]


def main() -> None:
    cases = list(corpus())
    answers = go_answers(("go", "run", "."), cases)
    rows = (json.dumps({**case, "answer": found}) for case, found in zip(cases, answers, strict=True))
    RECORDED.write_text("".join(f"{row}\n" for row in rows))


if __name__ == "__main__":
    main()
