"""Writes `requirements-dev.lock`: the exact versions that CI installs.

The lock covers all requirements in the repository's pyproject files: dependencies, extras, groups and build
requirements. uv resolves them for every supported Python and system at once. `make setup
CONSTRAINTS=requirements-dev.lock` installs these versions.

lock.py [--upgrade | --check]

Without an option, versions in the lock stay as long as they fit. `--check` fails if the lock lacks a requirement. It
does not access a package index.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

ROOT: Final = Path(__file__).resolve().parent.parent
LOCK: Final = "requirements-dev.lock"
OWN: Final = "kubewright"
"""What the names of this repository's distributions begin with: these are installed from the checkout."""
OLDEST_PYTHON: Final = "3.11"
HEADER: Final = (
    "# The exact versions that CI installs, for every supported Python and system. Written by `make lock`.\n"
)

Project: TypeAlias = dict[str, Any]


def requirements(root: Path) -> list[str]:
    """Return all requirements of the repository on other projects, sorted."""
    files = [root / "pyproject.toml", *sorted(root.glob("packages/*/pyproject.toml"))]
    found = {each for file in files for each in _named(tomllib.loads(file.read_text()))}
    return sorted(each for each in found if not name_of(each).startswith(OWN))


def _named(document: Project) -> Iterator[str]:
    project = document.get("project", {})
    yield from document.get("build-system", {}).get("requires", [])
    yield from project.get("dependencies", [])
    for extra in project.get("optional-dependencies", {}).values():
        yield from extra
    for group in document.get("dependency-groups", {}).values():
        yield from (each for each in group if isinstance(each, str))


def name_of(requirement: str) -> str:
    """Return the normalized name of the project that a requirement, or a line of the lock, is about."""
    match = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""


def missing(wanted: Iterable[str], lock: str) -> list[str]:
    """Return the requirements whose project has no version in the lock."""
    locked = {name_of(line) for line in lock.splitlines() if "==" in line}
    return [each for each in wanted if name_of(each) not in locked]


def compile_lock(wanted: Iterable[str], lock: Path, *, upgrade: bool) -> None:
    """Resolve the requirements with uv and write the lock."""
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "-",
        "--universal",
        f"--python-version={OLDEST_PYTHON}",
        "--no-header",
        "--no-annotate",
        "--quiet",
        f"--output-file={lock}",
    ]
    subprocess.run([*command, *(["--upgrade"] if upgrade else [])], input="\n".join(wanted), text=True, check=True)
    lock.write_text(HEADER + lock.read_text().removeprefix(HEADER))


def main(arguments: list[str], root: Path = ROOT) -> int:
    if arguments not in ([], ["--check"], ["--upgrade"]):
        sys.exit("usage: lock.py [--upgrade | --check]")
    wanted, lock = requirements(root), root / LOCK
    if arguments != ["--check"]:
        compile_lock(wanted, lock, upgrade=bool(arguments))
        return 0
    lacking = missing(wanted, lock.read_text() if lock.is_file() else "")
    for each in lacking:
        print(f"{LOCK} has no version for {each!r}; run `make lock`")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
