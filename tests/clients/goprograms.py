"""Go programs of the tests, built once for each run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from once import GO_BUILD, alone, made_once

BUILD_SECONDS = 600


def go_program(factory: pytest.TempPathFactory, source: Path) -> Path:
    """Build the program in the folder `source`. Skips if its modules are not available."""
    name = source.name
    with alone(factory, GO_BUILD), made_once(factory, f"go-{name}") as (folder, is_built):
        path = folder / name
        if not is_built:
            fetched = subprocess.run(("go", "mod", "download"), cwd=source, capture_output=True, text=True)
            if fetched.returncode != 0:
                pytest.skip(f"the Go modules cannot be had: {fetched.stderr.strip()}")
            subprocess.run(("go", "build", "-o", path, "."), cwd=source, check=True, timeout=BUILD_SECONDS)
    return path
