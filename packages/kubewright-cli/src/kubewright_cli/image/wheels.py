"""Install the requirements of a project into a folder, for the platform of the image.

Only wheels are installed: nothing is built, and no code of a package runs. Uses uv if it is installed, because it is
faster, else pip. Both read the user's index settings.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubewright.machinery.errors import ConfigError
from kubewright_cli.image.content import Platform

_MACHINES: Final[Mapping[str, str]] = {"amd64": "x86_64", "arm64": "aarch64"}
_GLIBC: Final = ("2_28", "2_27", "2_26", "2_24", "2_17", "2_12", "2_5")
"""The oldest glibc of common bases, and older ones that wheels are built for. Pip needs each by name."""

_NOT_FOUND: Final = ("No solution found when resolving", "No matching distribution found for")
"""Messages of uv and pip for a missing package."""

_PYTHON: Final = re.compile(r"3\.\d+")


@dataclass(frozen=True, slots=True)
class Target:
    """The platform and the Python of the image."""

    platform: Platform
    python: str
    """`3.14`"""

    def __post_init__(self) -> None:
        if not _PYTHON.fullmatch(self.python):
            raise ConfigError(f'Python "{self.python}" is not a version; write 3.14')


@dataclass(frozen=True, slots=True)
class Requirements:
    """The requirements of a project: a lock file, or else specifiers."""

    file: Path | None
    specifiers: tuple[str, ...]
    find_links: tuple[Path, ...] = ()
    """Folders of wheels to use before any index."""


def install(requirements: Requirements, target: Target, folder: Path) -> None:
    """Install the packages into `folder`, without files that differ between two runs.

    Raises ConfigError with the message of the installer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted = ["-r", str(requirements.file)] if requirements.file else list(requirements.specifiers)
    if not wanted:
        return
    links = [f"--find-links={path}" for path in requirements.find_links]
    done = subprocess.run([*_installer(target, folder), *links, *wanted], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ConfigError(
            f"cannot install the requirements for {target.platform}, Python {target.python}:\n{done.stderr.strip()}"
            f"{_way_out(done.stderr)}"
        )
    _clean(folder)


def compile_bytecode(folders: Sequence[Path], inside: str, python: str) -> bool:
    """Compile the sources in each folder, for their path below `inside` in the image.

    Returns False if no Python of that version is installed. The files of a running image are read-only, so without
    bytecode each start compiles everything. The bytecode ignores the times of its sources (PEP 552, unchecked).
    """
    interpreter = _interpreter(python)
    if interpreter is None:
        return False
    for folder in folders:
        command = [interpreter, "-I", "-m", "compileall", "-q", "-j1", "--invalidation-mode=unchecked-hash"]
        done = subprocess.run(
            [*command, "-s", str(folder), "-p", f"{inside}/{folder.name}", str(folder)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        if done.returncode != 0:
            raise ConfigError(f"Python {python} cannot compile the sources:\n{(done.stdout or done.stderr).strip()}")
    return True


def _installer(target: Target, folder: Path) -> list[str]:
    machine = _MACHINES[target.platform.architecture]
    common = [f"--target={folder}", f"--python-version={target.python}", "--only-binary=:all:", "--quiet"]
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is not None:
        # uv needs any Python, even to install for another one, and would download one if PATH has none.
        uv_install = [uv, "pip", "install", f"--python={sys.executable}", *common]
        return [*uv_install, f"--python-platform={machine}-manylinux_2_28", "--link-mode=copy"]
    if importlib.util.find_spec("pip") is None:
        raise ConfigError("cannot install the requirements: neither uv nor pip is installed; install one of them")
    platforms = [f"--platform=manylinux_{version}_{machine}" for version in _GLIBC]
    platforms += [f"--platform=manylinux2014_{machine}", f"--platform=linux_{machine}"]
    abi = f"cp{target.python.replace('.', '')}"
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile", *common, *platforms]
    return [*pip, "--implementation=cp", f"--abi={abi}", "--abi=abi3", "--abi=none"]


def _way_out(said: str) -> str:
    """Return the remedy if the installer has not found a package for this platform."""
    if not any(each in said for each in _NOT_FOUND):
        return ""
    return (
        "\nPut wheels that no index has into a folder, and name it: --find-links FOLDER, or find-links in "
        "[tool.kubewright.build]"
    )


def _interpreter(version: str) -> str | None:
    """Return an installed Python of that version. A program of that name may be a shim without a Python."""
    show = "import sys; print('{}.{}'.format(*sys.version_info))"
    for candidate in (sys.executable, shutil.which(f"python{version}")):
        if candidate is not None:
            done = subprocess.run([candidate, "-I", "-c", show], capture_output=True, text=True, check=False)
            if done.stdout.strip() == version:
                return candidate
    return None


def _clean(folder: Path) -> None:
    """Remove files that depend on where and how the packages were installed."""
    for name in ("bin", ".lock"):  # console scripts begin with the path of the installing Python
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for metadata in folder.glob("*.dist-info"):
        for name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json"):
            (metadata / name).unlink(missing_ok=True)
