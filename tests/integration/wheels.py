"""The wheels of this checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from once import made_once

PACKAGES = Path(__file__).parents[2] / "packages"
NAMES = ("kubewright", "kubewright-cli", "kubewright-controlplane")


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the wheels, and of the backend that builds wheels."""
    with made_once(tmp_path_factory, "wheels") as (folder, is_made):
        if not is_made:
            _build(folder)
    return folder


def _build(folder: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    download = [*pip, "download", "--dest", folder, "hatchling"]
    if subprocess.run(download, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs a package index, for the backend that builds wheels")
    wheel = [*pip, "wheel", "--no-deps", "--no-index", "--find-links", folder, "--wheel-dir", folder]
    built = subprocess.run([*wheel, *(PACKAGES / name for name in NAMES)], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
