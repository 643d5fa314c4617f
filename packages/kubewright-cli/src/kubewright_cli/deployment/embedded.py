"""A project's image on an embedded control plane of this machine: the command that it stands for.

The kubeconfig that `kubewright up` writes says where the table of such images is; see
`kubewright_controlplane.kubelet.processes`.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Final

from kubewright.client._config import Config
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.kubelet.images import Image, ImageTable

_CODE: Final = "PYTHONPATH"

PROGRAM: Final = "kubewright.dev/program"
"""The annotation of the Pods that says which code they run: when it changes, they are rolled over."""


def table_of(config: Config) -> ImageTable | None:
    """The image table of the control plane; None when that is not an embedded one.

    Raises ConfigError when it is one of another machine.
    """
    if config.image_table is None:
        return None
    if not config.image_table.parent.parent.is_dir():
        raise ConfigError(
            f"the embedded control plane of this kubeconfig keeps its images in {config.image_table}, which is not "
            "there: it is not up, or not on this machine; start one with `kubewright up`"
        )
    return ImageTable(config.image_table)


def image_of(root: Path, manager: str) -> Image:
    """The image of the project in the folder `root`: its program, run by this interpreter as a built image runs it."""
    folders = [str(each) for each in (root / "src", root) if each.is_dir()]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    environment = {_CODE: os.pathsep.join(folders), "PATH": path, "PYTHONUNBUFFERED": "1"}
    return Image((sys.executable, "-m", manager.partition(":")[0]), env=environment)


def same_project(image: Image, other: Image) -> bool:
    """Whether both run the code of one project."""
    return image.command == other.command and image.env.get(_CODE) == other.env.get(_CODE)


def mark(deployment: JSONObject, root: Path, image: Image) -> None:
    """Say in a Deployment which code its Pods run, so that new code is rolled out under the same name of the image."""
    digest = hashlib.sha256(repr(image).encode())
    for path in sorted((root / "src" if (root / "src").is_dir() else root).rglob("*.py")):
        digest.update(str(path).encode() + b"\0" + path.read_bytes() + b"\0")
    metadata = deployment["spec"]["template"]["metadata"]
    metadata["annotations"] = {**metadata.get("annotations", {}), PROGRAM: digest.hexdigest()[:16]}
