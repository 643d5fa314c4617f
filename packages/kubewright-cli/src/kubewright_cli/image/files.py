"""Files of an image in a registry: what its layers contain, without a container engine."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.folders import FILES_LIMIT, SIZE_LIMIT
from kubewright_cli.image.content import Descriptor, Platform, decode
from kubewright_cli.image.credentials import credentials_for
from kubewright_cli.image.layout import Layout
from kubewright_cli.image.registry import Registry
from kubewright_cli.manifests.reference import Reference

_PLATFORMS: Final = (Platform("linux", "amd64"), Platform("linux", "arm64"))
"""The platforms that are pulled of an image that has several. Its files are those of the first that it has."""
_REMOVED: Final = ".wh."
"""The start of the name of a file that says that a layer removes another one."""
_UNPACKED: Final = 1 << 30
"""Bytes of all files of a layer, extracted or not."""


async def extract_image(
    image: Reference,
    folders: Iterable[str],
    target: Path,
    say: Callable[[str], None],
    *,
    plain_http: bool = False,
) -> None:
    """Write the files in these top-level folders of an image to the folder `target`.

    Raises ConfigError if the image cannot be pulled, or has a layer that cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="kubewright-image-") as scratch:
        layout = Layout(Path(scratch))
        async with Registry(image.registry, credentials_for(image.registry), plain_http=plain_http) as registry:
            found = await registry.pull(image, _PLATFORMS, layout, say)
        for path, content in _files(image, layout, found, set(folders)).items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_bytes(content)


def _files(image: Reference, layout: Layout, top: Descriptor, folders: set[str]) -> dict[PurePosixPath, bytes]:
    found: dict[PurePosixPath, bytes] = {}
    for layer in _layers(image, layout, top):
        try:
            _apply(found, layout.path(layer.digest), folders)
        except ConfigError as error:
            raise ConfigError(f"{image}: {error}") from error
        except (OSError, tarfile.TarError) as error:
            raise ConfigError(f"{image}: layer {layer.digest} cannot be read: {error}") from error
    return found


def _layers(image: Reference, layout: Layout, top: Descriptor) -> Iterator[Descriptor]:
    document = decode(layout.read(top), str(image))
    if "manifests" in document:
        platforms = layout.platforms(top)
        first = next((platforms[each] for each in _PLATFORMS if each in platforms), None)
        if first is None:
            raise ConfigError(f"{image} is for none of the platforms {', '.join(map(str, _PLATFORMS))}")
        document = decode(layout.read(first), str(image))
    yield from map(Descriptor.read, document["layers"])


def _apply(found: dict[PurePosixPath, bytes], layer: Path, folders: set[str]) -> None:
    """Add the regular files of a layer, and remove those that it removes."""
    with tarfile.open(layer, "r:*") as archive:
        unpacked, kept = 0, sum(map(len, found.values()))
        for entry in archive:
            unpacked += entry.size
            if unpacked > _UNPACKED:
                raise ConfigError(f"a layer has files with more than {_UNPACKED} bytes; build the image FROM scratch")
            path = PurePosixPath(*[each for each in PurePosixPath(entry.name).parts if each not in ("/", ".")])
            if not path.parts or path.parts[0] not in folders or ".." in path.parts:
                continue
            if path.name.startswith(_REMOVED):
                removed = path.with_name(path.name.removeprefix(_REMOVED))
                for each in [known for known in found if known == removed or removed in known.parents]:
                    del found[each]
            elif entry.isfile() and (content := archive.extractfile(entry)) is not None:
                kept += entry.size
                if kept > SIZE_LIMIT or len(found) == FILES_LIMIT:
                    raise ConfigError(
                        f"{path}: the folders {', '.join(sorted(folders))} have more than {FILES_LIMIT} files or "
                        f"{SIZE_LIMIT} bytes; remove some from the image"
                    )
                found[path] = content.read()
