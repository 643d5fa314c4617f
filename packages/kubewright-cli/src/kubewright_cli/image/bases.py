"""Base images: from a registry, through a cache that all projects of a user share, or from a local layout."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from kubewright.machinery.errors import ConfigError
from kubewright_cli.image.build import Base
from kubewright_cli.image.content import IMAGES, Platform
from kubewright_cli.image.credentials import credentials_for
from kubewright_cli.image.layout import Layout
from kubewright_cli.image.registry import Registry
from kubewright_cli.manifests.reference import Reference

_LAYOUT: Final = "oci:"


async def find_base(
    name: str, platforms: Sequence[Platform], say: Callable[[str], None], *, plain_http: bool = False
) -> Base:
    """Return the base image `name`, with all blobs for these platforms in a local layout."""
    if name.startswith(_LAYOUT):
        return _local(name, Path(name.removeprefix(_LAYOUT)))
    reference = Reference.parse(name)
    layout = Layout(_cache())
    async with Registry(reference.registry, credentials_for(reference.registry), plain_http=plain_http) as registry:
        image = await registry.pull(reference, platforms, layout, say)
    return Base(str(reference.at(image.digest)), layout, image)


def _local(name: str, folder: Path) -> Base:
    layout = Layout(folder)
    images = [each for each in layout.images if each.media_type in IMAGES]
    if len(images) != 1:
        raise ConfigError(f"base {name}: the layout must have one image, and {folder} has {len(images)}")
    return Base(name, layout, images[0])


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kubewright" / "images"
