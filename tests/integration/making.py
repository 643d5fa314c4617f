"""Runs the targets of a project's Makefile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def make(target: str, folder: Path, *arguments: str, **variables: str) -> str:
    """Return the output of `make`, by default in the environment of these tests. It must succeed."""
    not_its_own = ("KUBE", "PYTHON", "MAKE", "TARGET", "MYPY")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(not_its_own)}
    environment.pop("VIRTUAL_ENV", None)
    done = subprocess.run(
        ["make", target, *arguments],
        cwd=folder,
        env=environment | (variables or {"VIRTUAL_ENV": str(Path(sys.executable).parents[1])}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def files(folder: Path) -> dict[str, bytes]:
    """Return the files of a project without caches."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path): (folder / path).read_bytes() for path in paths if "cache" not in str(path)}
