"""Build an image from a base, requirements and sources.

    /app/packages    the requirements: a layer that changes when a requirement does
    /app/source      the project: a layer that changes with each line of code

The image starts `python3 -m <module>` as user 65532, with the Python of the base. The same base, packages and sources
produce the same image, byte for byte (see `layer`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject
from kubewright_cli.image.content import (
    CONFIG,
    INDEX,
    MANIFEST,
    Descriptor,
    Platform,
    as_oci,
    decode,
    encode,
    index,
    manifest,
)
from kubewright_cli.image.layer import Layer, epoch, files_of, write_layer
from kubewright_cli.image.layout import Layout
from kubewright_cli.image.project import ImageProject
from kubewright_cli.image.wheels import Target, compile_bytecode, install
from kubewright_cli.manifests.reference import Reference

_USER: Final = "65532:65532"
"""The user nonroot of distroless images, which kubebuilder's images use, too."""
_PACKAGES: Final = PurePosixPath("app/packages")
_SOURCE: Final = PurePosixPath("app/source")


@dataclass(frozen=True, slots=True)
class Base:
    """A base image, in a layout with all its blobs."""

    name: str
    layout: Layout
    image: Descriptor


@dataclass(frozen=True, slots=True)
class Built:
    """A built image for one platform."""

    platform: Platform
    python: str
    image: Descriptor
    base_size: int
    """Compressed size in bytes."""
    packages_size: int
    source_size: int
    has_bytecode: bool

    @property
    def size(self) -> int:
        return self.base_size + self.packages_size + self.source_size


@dataclass(frozen=True, slots=True)
class Plan:
    """What to build."""

    project: ImageProject
    base: Base
    name: Reference
    platforms: tuple[Platform, ...]
    python: str = ""
    """The Python version of the base; empty to use its PYTHON_VERSION."""
    find_links: tuple[Path, ...] = ()


def build(plan: Plan, layout: Layout, say: Callable[[str], None]) -> tuple[Descriptor, list[Built]]:
    """Build the image into `layout`, and replace its content. Calls `say` at each step that takes time.

    Raises ConfigError if the base does not support a platform, or a requirement has no wheel for it.
    """
    found = plan.base.layout.platforms(plan.base.image)
    built: list[Built] = []
    for platform in plan.platforms:
        if platform not in found:
            has = ", ".join(map(str, sorted(found)))
            raise ConfigError(f"base {plan.base.name} does not support {platform}, only {has}")
        built.append(_build_one(plan, platform, found[platform], layout, say))
    if len(built) == 1:
        image = built[0].image
    else:
        entries = [Descriptor(MANIFEST, one.image.digest, one.image.size, one.platform) for one in built]
        image = layout.write(INDEX, index(entries))
    layout.publish(image, str(plan.name))
    return image, built


def _build_one(plan: Plan, platform: Platform, base: Descriptor, layout: Layout, say: Callable[[str], None]) -> Built:
    document = decode(plan.base.layout.read(base), "the base's manifest")
    config = decode(plan.base.layout.read(Descriptor.read(document["config"])), "the base's config")
    base_layers = [Descriptor.read(each) for each in document["layers"]]
    target = Target(platform, plan.python or _python_of(config, plan.base.name))
    plan.project.check_python(target.python)
    with TemporaryDirectory(prefix="kubewright-image-") as scratch:
        packages, source = Path(scratch, _PACKAGES.name), Path(scratch, _SOURCE.name)
        say(f"Installing requirements for {platform}, Python {target.python}")
        install(plan.project.requirements(Path(scratch), plan.find_links), target, packages)
        plan.project.copy_sources(source)
        has_bytecode = compile_bytecode([packages, source], f"/{_SOURCE.parent}", target.python)
        added = [
            write_layer(layout, files_of(packages, _PACKAGES), "kubewright: requirements"),
            write_layer(layout, files_of(source, _SOURCE), f"kubewright: {plan.project.settings.name}"),
        ]
    for each in base_layers:
        layout.take(each, plan.base.layout)
    extended = _configure(config, plan, base, added)
    layers = [*map(as_oci, base_layers), *(layer.blob for layer in added)]
    return Built(
        platform=platform,
        python=target.python,
        image=layout.write(MANIFEST, manifest(layout.write(CONFIG, encode(extended)), layers)),
        base_size=sum(each.size for each in base_layers),
        packages_size=added[0].blob.size,
        source_size=added[1].blob.size,
        has_bytecode=has_bytecode,
    )


def _python_of(config: JSONObject, base: str) -> str:
    """Return the minor version of the base's Python."""
    for each in config.get("config", {}).get("Env") or ():
        name, _, value = str(each).partition("=")
        if name == "PYTHON_VERSION":
            return ".".join(value.split(".")[:2])
    raise ConfigError(f"base {base} does not declare its Python (PYTHON_VERSION); name the version: --python 3.14")


def _configure(base: JSONObject, plan: Plan, manifest_of_base: Descriptor, added: Sequence[Layer]) -> JSONObject:
    """Return the config of the base, with the added layers and the program."""
    config = copy.deepcopy(base)
    created = datetime.fromtimestamp(epoch(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    config["created"] = created
    config["rootfs"]["diff_ids"] += [layer.diff_id for layer in added]
    config["history"] = [
        *(config.get("history") or ()),
        *({"created": created, "created_by": layer.created_by} for layer in added),
    ]
    run: JSONObject = config.setdefault("config", {})
    run["User"] = _USER
    run["WorkingDir"] = f"/{_SOURCE.parent}"
    run["Entrypoint"] = ["python3", "-m", plan.project.module]
    run.pop("Cmd", None)
    run["Env"] = [
        *(each for each in run.get("Env") or () if not str(each).startswith(("PYTHONPATH=", "PYTHONUNBUFFERED="))),
        f"PYTHONPATH=/{_SOURCE}:/{_PACKAGES}",
        "PYTHONUNBUFFERED=1",
    ]
    run["Labels"] = {**(run.get("Labels") or {}), **_labels(plan, manifest_of_base)}
    return config


def _labels(plan: Plan, base: Descriptor) -> Mapping[str, str]:
    """Return the labels of the OCI image specification (annotations.md)."""
    prefix = "org.opencontainers.image"
    labels = {
        f"{prefix}.title": plan.project.settings.name,
        f"{prefix}.version": plan.project.settings.version,
        f"{prefix}.base.name": plan.base.name,
        f"{prefix}.base.digest": base.digest,
    }
    return {name: value for name, value in labels.items() if value}
