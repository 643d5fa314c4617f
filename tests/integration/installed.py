"""Virtual environments that have what a user installs, and nothing of this checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parents[2]
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


class NoIndex(Exception):
    """No package index can be reached."""


class Installed:
    """A virtual environment with Kubewright's wheels and further requirements, below many others.

    Each of the others has programs and packages of its own, and finds the rest here.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, requirements: Collection[str]) -> None:
        """Raises NoIndex where the requirements can't be had."""
        wheels = self._folder / "wheels"
        try:
            _run(sys.executable, *PIP, "download", "--no-deps", "--dest", wheels, "hatchling")
        except subprocess.CalledProcessError as error:
            raise NoIndex from error
        distributions = sorted(ROOT.glob("packages/*"))
        _run(sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", wheels, *distributions)
        _run(base_python(), "-m", "venv", self._folder)
        pip = (self._folder / "bin/python", *PIP)
        _run(*pip, "install", "--no-compile", "--find-links", wheels, *wheels.glob("kubewright*"), *requirements)

    def below(self, folder: Path) -> None:
        """Make a virtual environment in `folder` that has all that is installed here."""
        _run(base_python(), "-m", "venv", "--without-pip", folder)
        (packages(folder) / "below.pth").write_text(f"{packages(self._folder)}\n")
        for program in (self._folder / "bin").iterdir():
            own = folder / "bin" / program.name
            if not own.exists():
                shutil.copy(program, own, follow_symlinks=False)
                _set_interpreter(own, self._folder, folder)


def packages(folder: Path) -> Path:
    """Where a virtual environment has its packages."""
    return next(folder.glob("lib/python*/site-packages"))


def base_python() -> Path:
    """Return the Python that this environment was made with."""
    return Path(sys.base_prefix, "bin", "python3")


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True)


def _set_interpreter(program: Path, before: Path, after: Path) -> None:
    """Have a script run in another virtual environment. Leaves other programs as they are."""
    content = program.read_bytes()
    if content.startswith(f"#!{before}/".encode()):
        program.write_bytes(content.replace(str(before).encode(), str(after).encode(), 1))
