"""The program in the Pods of backups: `python -m etcd_operator.agent save|delete`.

`save` writes a snapshot next to its final name, and renames it when its hash is verified and it is on the disk. So a
file of that name is complete, whatever ended the program. What it saved is in its termination message, as JSON.
"""

import argparse
import asyncio
import os
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from kubewright.certificates import BUNDLE, CERTIFICATE, KEY

from etcd_operator.etcd import Credentials, Etcd, Refused, SnapshotBroken, Unreachable

MESSAGE: Final = Path("dev/termination-log")
"""The termination message, which the operator reads. Paths are relative to the root folder of the container."""
_UNUSED_KEY: Final = "etcd.kubewright.dev/backup"
"""Read, to learn the current revision. It need not exist."""


class Saved(msgspec.Struct, rename="camel"):
    """What a backup has."""

    bytes: int
    sha256: str
    """Of the database, as etcd sent it."""
    revision: int
    """The backup contains all writes up to this one."""
    version: str


def main() -> int:
    parser = argparse.ArgumentParser(description="Save a snapshot of etcd, or delete one.")
    parser.add_argument("action", choices=("save", "delete"))
    parser.add_argument("--folder", type=Path, required=True, help="where the files of backups are")
    parser.add_argument("--file", required=True, help="the name of the file")
    parser.add_argument("--url", default="", help="the member to ask")
    parser.add_argument("--tls", type=Path, help="a folder with ca.crt, tls.crt and tls.key")
    parser.add_argument("--server-name", default="", help="a name in the member's certificate")
    parser.add_argument("--alone", action="store_true", help="ask the member even if it has no quorum")
    given = parser.parse_args()
    file = Path(given.folder, given.file)
    if given.action == "delete":
        file.unlink(missing_ok=True)
        return 0
    try:
        saved = asyncio.run(save(given.url, trust_in(given.tls, given.server_name), file, alone=given.alone))
    except (Unreachable, Refused, SnapshotBroken, OSError) as error:
        report(f"{type(error).__name__}: {error}".encode())
        return 1
    report(msgspec.json.encode(saved))
    return 0


def trust_in(folder: Path | None, server_name: str) -> Credentials | None:
    if folder is None:
        return None
    read = [(folder / name).read_bytes() for name in (BUNDLE, CERTIFICATE, KEY)]
    return Credentials(read[0], read[1], read[2], server_name)


async def save(url: str, trust: Credentials | None, file: Path, *, alone: bool = False) -> Saved:
    """Write a snapshot of the member at `url` to `file`. If it is `alone`, the snapshot has what that member knows."""
    part, digest, size = file.with_name(f".{file.name}.part"), sha256(), 0
    file.parent.mkdir(parents=True, exist_ok=True)
    async with Etcd(url, trust) as etcd:
        # A member that has answered a linearizable read has applied all writes up to its revision.
        revision = int((await etcd.get(_UNUSED_KEY, serializable=alone)).header.revision)
        version = (await etcd.status()).version
        with part.open("wb") as target:
            async for chunk in etcd.snapshot():
                digest.update(chunk)
                size += target.write(chunk)
            target.write(digest.digest())  # as etcd's own tools append it, and check it
            target.flush()
            os.fsync(target.fileno())
    part.replace(file)
    sync_folder(file.parent)
    return Saved(size, digest.hexdigest(), revision, version)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def report(message: bytes) -> None:
    """Write the termination message, and the log."""
    sys.stdout.buffer.write(message + b"\n")
    if MESSAGE.exists():
        MESSAGE.write_bytes(message)


if __name__ == "__main__":
    sys.exit(main())
