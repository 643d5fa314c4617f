"""A folder of blobs with an index: what is built, what is pushed, and what is kept of bases.

Guarantees
    A blob that is there is whole and is what its name says: each is checked while it is written under another name.
    The index is replaced in one step, after what it names was written.

Follows the OCI image layout specification (image-layout.md).
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import AsyncIterable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Final

from kubewright.machinery.errors import ConfigError
from kubewright_cli.image.content import Descriptor, Platform, decode, index

_VERSION: Final = b'{"imageLayoutVersion":"1.0.0"}'


class Layout:
    """The layout in the folder `root`, which may not be there yet."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._blobs = root / "blobs" / "sha256"

    def path(self, digest: str) -> Path:
        """Where this blob is, or will be."""
        return self._blobs / digest.removeprefix("sha256:")

    def has(self, blob: Descriptor) -> bool:
        path = self.path(blob.digest)
        return path.is_file() and path.stat().st_size == blob.size

    def read(self, blob: Descriptor) -> bytes:
        """ConfigError when it is not there."""
        try:
            return self.path(blob.digest).read_bytes()
        except FileNotFoundError as error:
            raise ConfigError(f"{self.root} lacks the blob {blob.digest}; build the image again") from error

    def write(self, media_type: str, content: bytes) -> Descriptor:
        blob = Descriptor.of(media_type, content)
        if not self.has(blob):
            with self._new_blob(blob.digest) as file:
                file.write(content)
        return blob

    async def receive(self, blob: Descriptor, chunks: AsyncIterable[bytes]) -> None:
        """Write what comes. ConfigError when it is not what the descriptor says; nothing of it is kept then."""
        seen = hashlib.sha256()
        with self._new_blob(blob.digest) as file:
            async for chunk in chunks:
                seen.update(chunk)
                file.write(chunk)
            if f"sha256:{seen.hexdigest()}" != blob.digest:
                raise ConfigError(f"{blob.digest} is not what came: {file.tell()} bytes of sha256:{seen.hexdigest()}")

    def take(self, blob: Descriptor, other: Layout) -> None:
        """Have a blob of another layout, by a link where both are on one file system."""
        if self.has(blob):
            return
        if not other.has(blob):
            raise ConfigError(f"{other.root} lacks the blob {blob.digest}")
        self._blobs.mkdir(parents=True, exist_ok=True)
        try:
            os.link(other.path(blob.digest), self.path(blob.digest))
        except OSError:  # another file system, or one without links
            with self._new_blob(blob.digest) as file:
                file.write(other.path(blob.digest).read_bytes())

    @property
    def images(self) -> list[Descriptor]:
        """What the index names. ConfigError when there is none."""
        path = self.root / "index.json"
        try:
            document = decode(path.read_bytes(), str(path))
        except FileNotFoundError as error:
            raise ConfigError(f"{self.root} is not an OCI image layout: it has no index.json") from error
        return [Descriptor.read(each) for each in document.get("manifests", [])]

    def publish(self, image: Descriptor, name: str) -> None:
        """Let the index name this image alone, and drop every blob that is not of it."""
        self.root.mkdir(parents=True, exist_ok=True)
        named = Descriptor(image.media_type, image.digest, image.size, image.platform, name)
        _replace(self.root / "oci-layout", _VERSION)
        _replace(self.root / "index.json", index([named]))
        wanted = {blob.digest for blob in self.closure(image)}
        for path in self._blobs.iterdir():
            if f"sha256:{path.name}" not in wanted:
                path.unlink()

    def closure(self, image: Descriptor) -> Iterator[Descriptor]:
        """Everything that an image consists of, what is pointed to before what points to it."""
        document = decode(self.read(image), image.digest)
        for each in document.get("manifests", ()):
            yield from self.closure(Descriptor.read(each))
        if "config" in document:
            yield from (Descriptor.read(each) for each in document["layers"])
            yield Descriptor.read(document["config"])
        yield image

    def platforms(self, image: Descriptor) -> dict[Platform, Descriptor]:
        """The manifests of an image by what they run on."""
        document = decode(self.read(image), image.digest)
        if "manifests" in document:
            each = (Descriptor.read(entry) for entry in document["manifests"])
            return {entry.platform: entry for entry in each if entry.platform}
        config = decode(self.read(Descriptor.read(document["config"])), "the image's config")
        return {Platform(str(config["os"]), str(config["architecture"])): image}

    def archive(self, path: Path) -> None:
        """Write the layout as one tar file, which `docker load`, `podman load` and `skopeo` take."""
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
            for file in sorted(self.root.rglob("*")):
                if file.is_file():
                    entry = tarfile.TarInfo(str(file.relative_to(self.root)))
                    entry.size = file.stat().st_size
                    with file.open("rb") as content:
                        archive.addfile(entry, content)

    @contextmanager
    def _new_blob(self, digest: str) -> Generator[IO[bytes]]:
        self._blobs.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=self._blobs, prefix=".new-", delete=False) as file:
            try:
                yield file
                file.flush()
                os.chmod(file.name, 0o644)
                os.replace(file.name, self.path(digest))
            except BaseException:
                os.unlink(file.name)
                raise


def _replace(path: Path, content: bytes) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(content)
    os.replace(fresh, path)
