"""Base images, wheels and projects for tests, without a package index or a registry."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from kubewright.machinery.json import JSONObject
from kubewright_cli.image.content import CONFIG, INDEX, MANIFEST, Descriptor, Platform, encode, index, manifest
from kubewright_cli.image.layer import File, write_layer
from kubewright_cli.image.layout import Layout

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
AMD64 = Platform("linux", "amd64")
ARM64 = Platform("linux", "arm64")

PYPROJECT = """\
[project]
name = "web-operator"
version = "0.3.0"
dependencies = ["greeting==1.0"]

[tool.kubewright]
manager = "web_operator.main:manager"
image = "registry.example.com/team/web-operator:v3"
"""
MAIN = """\
import importlib.metadata

import greeting

print(greeting.TEXT, importlib.metadata.version("web-operator"), importlib.metadata.version("greeting"))
"""


def write_wheel(folder: Path, name: str, version: str, source: str) -> None:
    """Write a wheel of one module, for every platform."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", source)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


def write_project(folder: Path, pyproject: str = PYPROJECT, main: str = MAIN) -> Path:
    """Write a project that prints a greeting, and its requirements as wheels in the folder `wheels` next to it."""
    package = folder / "src" / "web_operator"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(pyproject)
    (package / "__init__.py").touch()
    (package / "main.py").write_text(main)
    write_wheel(folder / "wheels", "greeting", "1.0", 'TEXT = "hello"\n')
    return folder


def write_base(folder: Path, platforms: Sequence[Platform] = (AMD64,), *, python: str = PYTHON) -> Layout:
    """Write a layout with an image that declares a Python version and contains a file."""
    layout = Layout(folder)
    images = [_write_image(layout, platform, python) for platform in platforms]
    if len(images) == 1:
        layout.publish(images[0], "base")
    else:
        entries = [
            Descriptor(MANIFEST, image.digest, image.size, platform)
            for image, platform in zip(images, platforms, strict=True)
        ]
        layout.publish(layout.write(INDEX, index(entries)), "base")
    return layout


def _write_image(layout: Layout, platform: Platform, python: str) -> Descriptor:
    release = File(PurePosixPath("etc/os-release"), f"NAME=test-{platform.architecture}\n".encode())
    layer = write_layer(layout, [release], "base")
    config: JSONObject = {
        "os": platform.os,
        "architecture": platform.architecture,
        "config": {"Env": ["PATH=/usr/bin", *([f"PYTHON_VERSION={python}.1"] if python else [])], "Cmd": ["bash"]},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id]},
        "history": [{"created_by": "base"}],
    }
    return layout.write(MANIFEST, manifest(layout.write(CONFIG, encode(config)), [layer.blob]))


def read(layout: Layout, image: Descriptor) -> JSONObject:
    """Return the document of a descriptor."""
    document: JSONObject = json.loads(layout.read(image))
    return document
