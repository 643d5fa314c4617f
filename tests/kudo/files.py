"""Packages of tests as folders and archives."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path


def write_package(folder: Path, files: dict[str, str]) -> Path:
    """Write a package to a folder, and return the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def write_archive(path: Path, files: dict[str, str]) -> Path:
    """Write a package to an archive, and return its path."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path
