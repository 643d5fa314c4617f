"""Folders that others have made: their files, within limits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kubewright.machinery.errors import ConfigError

FILES_LIMIT: Final = 10_000
"""Files of a folder."""
SIZE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of all files of a folder."""


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the regular files below a folder, sorted. Does not follow links to other folders.

    Raises ConfigError if there are more than `FILES_LIMIT`, or if they have more than `SIZE_LIMIT` bytes.
    """
    found: list[Path] = []
    size = 0
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            if not path.is_file():
                continue
            found.append(path)
            size += path.stat().st_size
            if len(found) > FILES_LIMIT:
                raise ConfigError(f"{folder}: there are more than {FILES_LIMIT} files; remove some")
            if size > SIZE_LIMIT:
                raise ConfigError(
                    f"{folder}: the files have more than {SIZE_LIMIT} bytes, {path} among them; remove it"
                )
    yield from sorted(found)
