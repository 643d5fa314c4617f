"""Temporary folders that are removed even if their process is killed.

Guarantees
    The folder is removed at the end of the block.
    If the process is killed, the next process of the same user that makes such a folder removes it.
    The folder of a running process is never removed by another process.

A running process holds a lock on the file `.lock` in the folder, which the system releases when the process dies.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

_PREFIX: Final = "kubewright-"
_LOCK: Final = ".lock"


@contextmanager
def scratch_folder(parent: Path | None = None) -> Generator[Path]:
    """Make a temporary folder for the duration of the block, by default in the system's folder for them."""
    parent = parent or Path(tempfile.gettempdir())
    _remove_left_behind(parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent)).absolute()
    try:
        with _locked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Lock a file and give it its name afterwards, so that no other process finds it without its lock."""
    unnamed = folder / f"{_LOCK}.new"
    with unnamed.open("wb") as file:
        _lock(file)
        unnamed.rename(folder / _LOCK)
        yield


def _remove_left_behind(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # still in use, or removed by another process
            if folder.stat().st_uid != os.getuid():
                continue
            with (folder / _LOCK).open("rb") as file:
                _lock(file)
                shutil.rmtree(folder, ignore_errors=True)


def _lock(file: IO[bytes]) -> None:
    """Raises OSError if another process, or another folder of this process, holds the lock."""
    import fcntl  # not available on every platform

    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
