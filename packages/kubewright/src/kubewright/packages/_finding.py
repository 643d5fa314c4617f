"""What the verification of a package finds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Level: TypeAlias = Literal["error", "warning"]
"""How serious a finding is: a package with errors cannot be installed, one with warnings can."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A rule that a package breaks, and where."""

    file: str
    """The file, relative to the folder of the package."""
    line: int
    """The line, from 1; 0 for the whole file."""
    key: str
    """The field: `plans.deploy.phases[0]`. Empty for the whole file or line."""
    rule: str
    """The name of the rule, for scripts: `undefined-task`."""
    message: str
    """What is wrong, and what to do."""
    level: Level = "error"

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


Path: TypeAlias = tuple[str | int, ...]
"""The keys and the indices of lists that lead to a field: `("plans", "deploy", "phases", 0)`."""


def key_of(path: Path) -> str:
    """Return a path as text: `plans.deploy.phases[0]`."""
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).removeprefix(".")


_PLACE: Final = re.compile(r'in "[^"]*", line (\d+), column \d+')


def yaml_fault(message: str) -> tuple[int, str]:
    """Return the line of a YAML parser's message, 0 if it has none, and what is wrong, on one line."""
    lines = [int(each) for each in _PLACE.findall(message)]
    parts = [each.strip() for each in _PLACE.sub("", message).splitlines()]
    return (lines[-1] if lines else 0), ", ".join(filter(None, parts))
