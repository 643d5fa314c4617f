"""What a validation of a bundle or a catalog finds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that a bundle or a catalog breaks, and the remedy."""

    level: Level
    rule: str
    """The name of the rule, for scripts: `csv-name`."""
    file: str
    """The file, relative to the folder of the bundle or the catalog."""
    field: str
    """The path of the field; empty for the whole file."""
    value: str
    """The value of the field, as JSON unless it is text; empty if there is none."""
    problem: str
    remedy: str
    suite: str = "default"
    """The rules that it belongs to: `default`, `format`, or the name of an optional suite."""

    def __str__(self) -> str:
        place = f"{self.file}: {self.field}" if self.field else self.file
        value = f' "{self.value}"' if self.value and len(self.value) <= 100 else ""
        return f"{place}{value}: {self.problem}; {self.remedy}"


def shown(value: object) -> str:
    """Return a value as a finding shows it."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
