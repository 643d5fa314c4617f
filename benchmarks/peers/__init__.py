"""The same operator in each tool kit: a Widget owns a ConfigMap with what its spec says, and its status tells of it.

Each is written as the users of its tool kit write operators, with that tool kit's defaults.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.process import compiled_into

HERE: Final = Path(__file__).resolve().parent

KUBEWRIGHT: Final = "kubewright"
CONTROLLER_RUNTIME: Final = "controller-runtime"


class PeerMissing(Exception):
    """A peer can't be built here; says what it needs."""


@dataclass(frozen=True)
class Peer:
    """An operator that can be started."""

    name: str
    command: tuple[str, ...]
    """Takes `--kubeconfig`, `--metrics-bind-address` and `--health-probe-bind-address`."""
    environment: dict[str, str]


def kubewright_operator(folder: Path) -> Peer:
    """Compile the operator into `folder`, as an installation does."""
    command = (sys.executable, str(HERE / "kubewright" / "widgets.py"))
    environment = compiled_into(folder)
    subprocess.run((*command, "--help"), env=environment, stdout=subprocess.DEVNULL, check=True)
    return Peer(KUBEWRIGHT, command, environment)


def controller_runtime_operator(folder: Path) -> Peer:
    """Build the Go module `peers/controller-runtime` into `folder`. Raises PeerMissing."""
    if shutil.which("go") is None:
        raise PeerMissing(
            f"{CONTROLLER_RUNTIME} is left out: building it needs Go 1.26 or newer, and there is no `go` on the PATH"
        )
    binary = folder / CONTROLLER_RUNTIME
    built = subprocess.run(
        ("go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(binary), "."),
        cwd=HERE / CONTROLLER_RUNTIME,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        raise PeerMissing(f"{CONTROLLER_RUNTIME} is left out: `go build` failed:\n{built.stderr.strip()}")
    return Peer(CONTROLLER_RUNTIME, (str(binary),), dict(os.environ))
