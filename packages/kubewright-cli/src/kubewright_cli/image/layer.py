"""Layers: compressed tar files with the same bytes each time.

A layer does not depend on the owners, groups and times of the files, nor on their order in the file system. All files
have the time SOURCE_DATE_EPOCH, or 1970 (reproducible-builds.org). The compressed bytes also depend on the zlib of the
running Python.
"""

from __future__ import annotations

import io
import os
import struct
import tarfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from kubewright_cli.image.content import LAYER, Descriptor, digest_of
from kubewright_cli.image.layout import Layout

_GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""Deflate, no name, no time, unknown system (RFC 1952)."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a layer. `link` is the target of a symbolic link."""

    path: PurePosixPath
    """The path from the root of the image, without a leading slash."""
    content: bytes = b""
    executable: bool = False
    link: str = ""


@dataclass(frozen=True, slots=True)
class Layer:
    """A written layer."""

    blob: Descriptor
    diff_id: str
    """The digest of the uncompressed content, for the config."""
    created_by: str
    """The entry in the history of the image."""


def files_of(folder: Path, under: PurePosixPath) -> list[File]:
    """Return the files in `folder`, with their paths below `under` in the image."""
    found: list[File] = []
    for path in sorted(folder.rglob("*")):
        inside = under / path.relative_to(folder).as_posix()
        if path.is_symlink():
            found.append(File(inside, link=os.readlink(path)))
        elif path.is_file():
            found.append(File(inside, path.read_bytes(), os.access(path, os.X_OK)))
    return found


def write_layer(layout: Layout, files: Iterable[File], created_by: str) -> Layer:
    """Write the files and their folders as a layer into the layout."""
    archive = _tar(sorted(files, key=lambda file: file.path.parts))
    return Layer(layout.write(LAYER, _gzip(archive)), digest_of(archive), created_by)


def epoch() -> int:
    """Return the time of all files, in seconds since 1970."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or 0)


def _tar(files: list[File]) -> bytes:
    out = io.BytesIO()
    folders: set[PurePosixPath] = set()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in files:
            for folder in reversed(file.path.parents[:-1]):
                if folder not in folders:
                    folders.add(folder)
                    archive.addfile(_entry(f"{folder}", tarfile.DIRTYPE, 0o755))
            if file.link:
                entry = _entry(str(file.path), tarfile.SYMTYPE, 0o777)
                entry.linkname = file.link
                archive.addfile(entry)
            else:
                entry = _entry(str(file.path), tarfile.REGTYPE, 0o755 if file.executable else 0o644)
                entry.size = len(file.content)
                archive.addfile(entry, io.BytesIO(file.content))
    return out.getvalue()


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.mtime = kind, mode, epoch()
    return entry


def _gzip(content: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(content) + packer.flush()
    return _GZIP_HEAD + body + struct.pack("<LL", zlib.crc32(content), len(content) & 0xFFFFFFFF)
