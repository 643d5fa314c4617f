"""Types are behavior: type checkers accept the files in this folder, and report exactly the expected errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
COMMANDS = {
    "mypy": ["mypy", "--config-file", str(HERE.parents[1] / "pyproject.toml"), str(HERE)],
    "pyright": ["pyright", "--project", str(HERE), "--pythonpath", sys.executable],
}


@pytest.mark.parametrize("checker", COMMANDS)
def test_the_type_checker_finds_exactly_the_expected_errors(checker: str) -> None:
    command = [sys.executable, "-m", *COMMANDS[checker]]
    found = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
