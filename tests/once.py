"""Resources that several workers of a test run share and one worker creates."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

GO_BUILD = "go-build"
"""Only one worker at a time builds Go programs, so that the next finds compiled packages in Go's cache."""


def run_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the temporary folder of the whole run, which all its workers share."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@contextmanager
def alone(factory: pytest.TempPathFactory, name: str) -> Iterator[Path]:
    """Exclude other workers of the run from blocks of that name. Yields a file that these blocks share, for notes."""
    notes = run_folder(factory) / f"{name}.lock"
    with notes.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield notes


@contextmanager
def made_once(factory: pytest.TempPathFactory, name: str) -> Iterator[tuple[Path, bool]]:
    """Yield a folder of the run, and whether an earlier worker has already filled it.

    The other workers wait until the block ends. If it raises, the next worker starts with a new empty folder.
    """
    with alone(factory, name) as notes:
        made = notes.read_text()
        folder = Path(made) if made else factory.mktemp(name)
        yield folder, bool(made)
        notes.write_text(str(folder))
