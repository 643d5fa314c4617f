"""Files to a layer: a tar file, compressed, the same bytes each time.

Owner, group and times of the files don't go in, nor does the order in which a file system lists them. The time that
all files bear is SOURCE_DATE_EPOCH, or 1970 (reproducible-builds.org). The bytes of the tar file depend on nothing
else; those of its compression on the zlib of this Python too.
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
"""Deflated, no name, no time, by no system in particular (RFC 1952)."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a layer, `link` being where it points to if it is a symbolic link."""

    path: PurePosixPath
    """From the root of the image, without a leading slash."""
    content: bytes = b""
    executable: bool = False
    link: str = ""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that was written."""

    blob: Descriptor
    diff_id: str
    """The digest of what is in it, uncompressed: what the config names."""
    created_by: str
    """What the image's history says of it."""


def files_of(folder: Path, under: PurePosixPath) -> list[File]:
    """The files below `folder`, to be found below `under` in the image."""
    found: list[File] = []
    for path in sorted(folder.rglob("*")):
        inside = under / path.relative_to(folder).as_posix()
        if path.is_symlink():
            found.append(File(inside, link=os.readlink(path)))
        elif path.is_file():
            found.append(File(inside, path.read_bytes(), os.access(path, os.X_OK)))
    return found


def write_layer(layout: Layout, files: Iterable[File], created_by: str) -> Layer:
    """Write the files, with the folders that they need, as a layer into the layout."""
    archive = _tar(sorted(files, key=lambda file: file.path.parts))
    return Layer(layout.write(LAYER, _gzip(archive)), digest_of(archive), created_by)


def epoch() -> int:
    """The time that everything bears, in seconds since 1970."""
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
