"""What commands say, failures above all, is what `tests/golden/transcripts` has: `make generate` writes it down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_commands_say_what_is_written_down() -> None:
    command = [sys.executable, ROOT / "tools/transcripts.py", ROOT / "tests/golden/transcripts", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
