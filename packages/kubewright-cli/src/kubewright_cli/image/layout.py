"""A folder of blobs with an index, for built images and cached bases.

Guarantees
    Every blob is complete and matches its digest: it is checked while it is written under a temporary name.
    The index is replaced atomically, after the blobs that it names are written.

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
    """The layout in the folder `root`, which may not exist yet."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._blobs = root / "blobs" / "sha256"

    def path(self, digest: str) -> Path:
        """Return the path of a blob, whether it exists or not."""
        return self._blobs / digest.removeprefix("sha256:")

    def has(self, blob: Descriptor) -> bool:
        path = self.path(blob.digest)
        return path.is_file() and path.stat().st_size == blob.size

    def read(self, blob: Descriptor) -> bytes:
        """Raises ConfigError if the blob is missing."""
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
        """Write a blob from a stream. Raises ConfigError, and keeps nothing, if the digest does not match."""
        seen = hashlib.sha256()
        with self._new_blob(blob.digest) as file:
            async for chunk in chunks:
                seen.update(chunk)
                file.write(chunk)
            if f"sha256:{seen.hexdigest()}" != blob.digest:
                raise ConfigError(f"expected {blob.digest}, got {file.tell()} bytes of sha256:{seen.hexdigest()}")

    def take(self, blob: Descriptor, other: Layout) -> None:
        """Add a blob of another layout: as a hard link on the same file system, else as a copy."""
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
        """The images in the index. Raises ConfigError if there is no index."""
        path = self.root / "index.json"
        try:
            document = decode(path.read_bytes(), str(path))
        except FileNotFoundError as error:
            raise ConfigError(f"{self.root} is not an OCI image layout: it has no index.json") from error
        return [Descriptor.read(each) for each in document.get("manifests", [])]

    def publish(self, image: Descriptor, name: str) -> None:
        """Make this image the only one in the index, and delete the blobs of others."""
        self.root.mkdir(parents=True, exist_ok=True)
        named = Descriptor(image.media_type, image.digest, image.size, image.platform, name)
        _replace(self.root / "oci-layout", _VERSION)
        _replace(self.root / "index.json", index([named]))
        wanted = {blob.digest for blob in self.closure(image)}
        for path in self._blobs.iterdir():
            if f"sha256:{path.name}" not in wanted:
                path.unlink()

    def closure(self, image: Descriptor) -> Iterator[Descriptor]:
        """Yield all blobs of an image. A blob comes before the blobs that reference it."""
        document = decode(self.read(image), image.digest)
        for each in document.get("manifests", ()):
            yield from self.closure(Descriptor.read(each))
        if "config" in document:
            yield from (Descriptor.read(each) for each in document["layers"])
            yield Descriptor.read(document["config"])
        yield image

    def platforms(self, image: Descriptor) -> dict[Platform, Descriptor]:
        """Return the manifests of an image, by platform."""
        document = decode(self.read(image), image.digest)
        if "manifests" in document:
            each = (Descriptor.read(entry) for entry in document["manifests"])
            return {entry.platform: entry for entry in each if entry.platform}
        config = decode(self.read(Descriptor.read(document["config"])), "the image's config")
        return {Platform(str(config["os"]), str(config["architecture"])): image}

    def archive(self, path: Path) -> None:
        """Write the layout as a tar file for `docker load`, `podman load` and `skopeo`."""
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
