"""The cases of the suite, and what each of them needs from a control plane.

`needs.json` sorts the cases by their source, for the version in `tools/controlplane`. It selects cases and their time
limits; which cases a control plane with simulated Pods can pass is seen from the results of the real one.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import yaml

Need: TypeAlias = Literal["api", "controllers", "containers"]
NEEDS: Final[tuple[Need, ...]] = get_args(Need)
_TABLE: Final = Path(__file__).with_name("needs.json")


@dataclass(frozen=True)
class Case:
    name: str
    """The name in the suite: `[sig-apps] Deployment should ... [Conformance]`."""
    file: str
    needs: Need

    @property
    def area(self) -> str:
        """The special interest group that owns the case: `sig-apps`."""
        return area_of(self.name)

    @property
    def runs_alone(self) -> bool:
        return "[Serial]" in self.name or "[Disruptive]" in self.name


def area_of(name: str) -> str:
    found = re.match(r"\[(sig-[a-z-]+)\]", name)
    return found[1] if found else ""


def all_cases(binaries: Path) -> list[Case]:
    """Return the cases that `e2e.test` lists, in its order."""
    printed = subprocess.run((binaries / "e2e.test", "--list-conformance-tests"), capture_output=True, check=True)
    needs = table()
    return [_case(each["codename"], each["file"], needs) for each in yaml.safe_load(printed.stdout)]


def table() -> dict[str, Need]:
    """Return what cases need, by name. A case that is missing needs an API server."""
    found: dict[Need, list[str]] = json.loads(_TABLE.read_text())
    return {name: need for need, names in found.items() for name in names}


def _case(name: str, file: str, needs: dict[str, Need]) -> Case:
    return Case(name, file, needs.get(name, "api"))
