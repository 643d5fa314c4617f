"""The programs of `kubewright-controlplane envtest`, as suites start them."""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from pathlib import Path

from integration.command import CONTROL_PLANE
from kubewright.machinery.errors import ConfigError
from kubewright_controlplane.real import find_binaries


@cache
def assets() -> Path:
    """Return the folder that the command prints."""
    done = subprocess.run((CONTROL_PLANE, "envtest"), capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


@cache
def real_program(name: str) -> Path | None:
    """Return a program of the real control plane, if it is on this machine."""
    try:
        return find_binaries(name) / name
    except ConfigError:
        return None


def refusal(program: Path, *arguments: str) -> str:
    """Return why a program does not start: the last line that it writes, without the moment and the source."""
    done = subprocess.run((program, *arguments), capture_output=True, text=True, timeout=60, env=dict(os.environ))
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if not line.startswith(("W", "I"))]
    return re.sub(r"^E\S+ \S+ +\d+ \S+\] ", "", lines[-1])
