"""Virtual environments with the packages that a user installs, without this checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parents[2]
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


class NoIndex(Exception):
    """No package index is available."""


class Installed:
    """A virtual environment with Kubewright's wheels and further requirements, the base of other environments.

    Each of the others has its own programs and packages, and imports the rest from here.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, requirements: Collection[str]) -> None:
        """Raises NoIndex if the requirements are not available."""
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
        """Create a virtual environment in `folder` that also has the packages of this environment."""
        _run(base_python(), "-m", "venv", "--without-pip", folder)
        (packages(folder) / "below.pth").write_text(f"{packages(self._folder)}\n")
        for program in (self._folder / "bin").iterdir():
            own = folder / "bin" / program.name
            if not own.exists():
                shutil.copy(program, own, follow_symlinks=False)
                _set_interpreter(own, self._folder, folder)


def packages(folder: Path) -> Path:
    """Return the package folder of a virtual environment."""
    return next(folder.glob("lib/python*/site-packages"))


def base_python() -> Path:
    """Return the Python that this environment was made with."""
    return Path(sys.base_prefix, "bin", "python3")


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True)


def _set_interpreter(program: Path, before: Path, after: Path) -> None:
    """Change a script to run in another virtual environment. Other programs are not changed."""
    content = program.read_bytes()
    if content.startswith(f"#!{before}/".encode()):
        program.write_bytes(content.replace(str(before).encode(), str(after).encode(), 1))
