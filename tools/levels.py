"""Capability levels of the examples: measures them, and writes them into the README.

python -m tools.levels             write the levels of the stored reports into README.md, and the reports' schema
python -m tools.levels --check     fail if one of these files is out of date, or a report is of an older program
python -m tools.levels --measure   measure all examples before, or those that are named
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from kubewright.testing.levels import Level, Report
from kubewright_cli.olm.levels import digest_of
from kubewright_cli.project import Project

ROOT: Final = Path(__file__).parents[1]
README: Final = ROOT / "README.md"
SCHEMA: Final = ROOT / "docs" / "levels.schema.json"
_ROW: Final = re.compile(r"^(\| \[[^\]]+\]\(examples/([\w-]+)\) \|) [IV–]+ \|", re.MULTILINE)


def main() -> int:
    """Run the program, and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("examples", nargs="*")
    arguments = parser.parse_args()
    if arguments.measure:
        folders = sorted(each.parent for each in ROOT.glob("examples/*/pyproject.toml"))
        for each in folders:
            if not arguments.examples or each.name in arguments.examples:
                measure(each)
    outdated = [each for each in reports() if is_outdated(each)]
    for each in outdated:
        print(f"{each.relative_to(ROOT)}: of an older program; run `make levels LEVELS_ARGS={each.parent.name}`")
    stale = [path for path, text in wanted().items() if not path.is_file() or path.read_text() != text]
    for path in stale:
        if not arguments.check:
            path.write_text(wanted()[path])
        print(path.relative_to(ROOT))
    return 1 if (stale or outdated) and arguments.check else 0


def reports() -> list[Path]:
    """Return the stored reports of the examples."""
    return sorted(ROOT.glob("examples/*/levels.json"))


def is_outdated(path: Path) -> bool:
    """Return whether a report was measured with another program, other samples or another declaration."""
    return Report.read(path).program != digest_of(Project.load(path.parent))


def wanted() -> dict[Path, str]:
    """Return the files, with their right content."""
    schema = json.dumps(Report.schema(), indent=2) + "\n"
    return {README: _ROW.sub(_row, README.read_text()), SCHEMA: schema}


def measure(example: Path) -> None:
    """Write levels.json of an example."""
    print(f"== {example.name}", flush=True)
    subprocess.run([sys.executable, "-m", "kubewright", "levels"], cwd=example, check=True)


def level_in(example: Path) -> str:
    """Return the level in the stored report of an example; a dash if there is none."""
    path = example / "levels.json"
    return Level(Report.read(path).level).numeral if path.is_file() else Level.NONE.numeral


def _row(found: re.Match[str]) -> str:
    return f"{found[1]} {level_in(ROOT / 'examples' / found[2])} |"


if __name__ == "__main__":
    sys.exit(main())
