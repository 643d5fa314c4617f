"""The bundles of an upgrade: the one that a user names, or the steps in a catalog."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubewright.machinery.errors import ConfigError
from kubewright_cli.installation.graph import Channel, Release
from kubewright_cli.installation.inventory import Inventory
from kubewright_cli.installation.source import InstallableBundle, opened_bundle
from kubewright_cli.olm.catalog import ReleasedBundle
from kubewright_cli.olm.validation.catalogs import Catalog, load_catalog

FOLDERS: Final = ("bundles/*", "bundle")
"""Where the released bundles of a project and its current one are."""


@dataclass(frozen=True, slots=True)
class CatalogUpgrade:
    """An upgrade along the graph of a catalog."""

    channel: Channel
    target: Release
    folders: dict[str, Path]
    """The folders of bundles, by the names of their ClusterServiceVersions."""

    def steps(self, installed: Inventory) -> list[Release]:
        """Return the bundles to install, in order. The first one is that of an upgrade that was interrupted.

        Raises ConfigError if no way leads to the target.
        """
        path = self.channel.path(installed.bundle, installed.semver, self.target)
        current = self.channel.releases.get(installed.bundle)
        return [current, *path] if installed.state != "installed" and current is not None else path

    @asynccontextmanager
    async def opened(
        self, release: Release, say: Callable[[str], None], *, plain_http: bool
    ) -> AsyncGenerator[InstallableBundle]:
        """Yield the bundle of a step: from its folder, or else from its image. Raises ConfigError."""
        folder = self.folders.get(release.name)
        if folder is None and not release.image:
            raise ConfigError(f"the catalog has no image of {release.name}; name its folder with --bundles")
        async with opened_bundle(str(folder or release.image), say, plain_http=plain_http) as bundle:
            if bundle.name != release.name:
                raise ConfigError(f"image {release.image} has the bundle {bundle.name}, and not {release.name}")
            yield bundle


def catalog_upgrade(
    folder: Path, patterns: Iterable[str], *, package: str = "", channel: str = "", target: str = ""
) -> CatalogUpgrade:
    """Return the upgrade in the catalog of a folder.

    package: needed if the catalog has several. channel: by default, the package's default channel. target: a version or
    a name; by default, the newest. Raises ConfigError for what the catalog does not have.
    """
    catalog = load_catalog(folder)
    found = Channel.of(catalog, package or _only_package(catalog), channel)
    return CatalogUpgrade(found, found.find(target), _folders(patterns))


def _only_package(catalog: Catalog) -> str:
    names = [each.name for each in catalog.packages]
    if len(names) != 1:
        raise ConfigError(f"the catalog has {len(names)} packages; name one with --package: {', '.join(names)}")
    return names[0]


def _folders(patterns: Iterable[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for pattern in patterns:
        root, relative = (Path("/"), pattern.lstrip("/")) if pattern.startswith("/") else (Path(), pattern)
        for path in sorted(root.glob(relative)):
            if (path / "manifests").is_dir():
                found[ReleasedBundle.read(path, str(path)).name] = path
    return found
