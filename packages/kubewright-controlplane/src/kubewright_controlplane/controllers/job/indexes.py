"""Sets of completion indexes as text, as in the status of a Job: `0,2-4,7`.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
"""

from __future__ import annotations

from collections.abc import Iterable


def parse(text: str | None, completions: int | None) -> set[int]:
    """Return the indexes in a text that are below `completions`. Raises ValueError if the text is invalid."""
    least = completions or 0
    found: set[int] = set()
    for part in filter(None, (text or "").split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), min(int(last or first) + 1, least)))
    return found


def text_of(indexes: Iterable[int]) -> str:
    """Return the shortest text for a set of indexes. Two adjacent indexes are `3,4`, three are `3-5`."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(_run(run) for run in runs)


def _run(run: list[int]) -> str:
    return ",".join(map(str, run)) if len(run) < 3 else f"{run[0]}-{run[-1]}"
