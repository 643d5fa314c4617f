"""Bundles to install: from a folder, or from an image in a registry."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject
from kubewright_cli.image.files import extract_image
from kubewright_cli.manifests.reference import Reference
from kubewright_cli.olm.catalog import ReleasedBundle
from kubewright_cli.olm.parts import items, mapping, text
from kubewright_cli.olm.semver import Version
from kubewright_cli.olm.serviceversion import KIND
from kubewright_cli.olm.validation import validate_bundle
from kubewright_cli.olm.validation.document import CRD, Reader

_SHOWN: Final = 3
"""Findings that a message names."""
_FOLDERS: Final = ("manifests", "metadata")
"""The folders of a bundle, also in its image."""


@dataclass(frozen=True, slots=True)
class InstallableBundle:
    """A bundle without errors."""

    folder: Path
    released: ReleasedBundle
    crds: Sequence[JSONObject]
    others: Sequence[JSONObject]
    """The objects that are neither CRDs nor the ClusterServiceVersion."""

    @property
    def name(self) -> str:
        """The name of the ClusterServiceVersion."""
        return self.released.name

    @property
    def package(self) -> str:
        return self.released.package

    @property
    def version(self) -> Version:
        return self.released.version

    @property
    def spec(self) -> JSONObject:
        """`spec` of the ClusterServiceVersion."""
        return self.released.spec

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the ClusterServiceVersion."""
        found = mapping(self.released.csv["metadata"].get("annotations"))
        return {key: text(value) for key, value in found.items()}

    @property
    def strategy(self) -> JSONObject:
        """`spec.install.spec` of the ClusterServiceVersion."""
        return mapping(mapping(self.spec.get("install")).get("spec"))

    @property
    def deployments(self) -> list[JSONObject]:
        """Name, label and spec of each Deployment."""
        return items(self.strategy.get("deployments"))

    @property
    def webhooks(self) -> list[JSONObject]:
        return items(self.spec.get("webhookdefinitions"))

    @property
    def suggested_namespace(self) -> str:
        """The namespace that the bundle suggests, or one made of the package's name."""
        return self.annotations.get("operatorframework.io/suggested-namespace") or f"{self.package}-system"

    @classmethod
    def read(cls, folder: Path) -> InstallableBundle:
        """Read a bundle. Raises ConfigError if the folder has none, or if `kubewright bundle validate` finds errors."""
        errors = [each for each in validate_bundle(folder) if each.level == "error"]
        if errors:
            more = f"; and {len(errors) - _SHOWN} more" if len(errors) > _SHOWN else ""
            listed = "; ".join(map(str, errors[:_SHOWN]))
            raise ConfigError(
                f"{folder} is not a valid bundle: {listed}{more}. Correct them; "
                f"`kubewright bundle validate {folder}` lists all"
            )
        found = Reader(folder).read()
        assert found is not None, "a bundle that cannot be read has findings"
        released = ReleasedBundle.read(folder, str(folder))
        objects = [deepcopy(each.data) for each in found.objects if each.kind != KIND]
        crds = [each for each in objects if each["kind"] == CRD]
        return cls(folder, released, crds, [each for each in objects if each["kind"] != CRD])


@asynccontextmanager
async def opened_bundle(
    source: str, say: Callable[[str], None], *, plain_http: bool = False
) -> AsyncGenerator[InstallableBundle]:
    """Yield the bundle in a folder, or that of an image, which is pulled without a container engine.

    Raises ConfigError if `source` is neither, or if the bundle is not valid.
    """
    if _is_folder(source):
        yield InstallableBundle.read(Path(source))
        return
    if not _names_image(source):
        raise ConfigError(
            f"there is no folder {source}; name the folder of a bundle (`kubewright generate bundle` writes one) or "
            "the image of one, such as ghcr.io/me/my-operator-bundle:v1.0.0"
        )
    with tempfile.TemporaryDirectory(prefix="kubewright-bundle-") as scratch:
        folder = Path(scratch) / "bundle"
        await extract_image(Reference.parse(source), _FOLDERS, folder, say, plain_http=plain_http)
        if not _is_folder(str(folder / "manifests")):
            raise ConfigError(f"image {source} has no folder /manifests, so it is not the image of a bundle")
        yield InstallableBundle.read(folder)


def _is_folder(source: str) -> bool:
    return Path(source).is_dir()


def _names_image(source: str) -> bool:
    host, slash, _ = source.partition("/")
    return "@" in source or (bool(slash) and ("." in host.strip(".") or ":" in host or host == "localhost"))
