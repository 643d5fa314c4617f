"""A project's image on an embedded control plane on this machine: the command that the image stands for.

The kubeconfig that `kubewright up` writes names the file with the table of such images; see
`kubewright_controlplane.kubelet.processes`. All projects on one control plane share this table.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kubewright.apis.apps.v1 import Deployment
from kubewright.client import Client, Config
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject
from kubewright_cli.deployment.objects import names_of
from kubewright_cli.manifests import Manifests
from kubewright_cli.manifests.names import MANAGER
from kubewright_controlplane.kubelet.images import Image, ImageTable

_CODE: Final = "PYTHONPATH"

PROGRAM: Final = "kubewright.dev/program"
"""The annotation of Pods that identifies the code they run. A new value rolls the Pods over."""


def table_of(config: Config) -> ImageTable | None:
    """Return the image table of the control plane; None if the control plane is not an embedded one.

    Raises ConfigError if the table is on another machine.
    """
    if config.image_table is None:
        return None
    if not config.image_table.parent.parent.is_dir():
        raise ConfigError(
            f"the embedded control plane of this kubeconfig keeps its images in {config.image_table}, which does not "
            "exist: the control plane is not running, or runs on another machine; start one with `kubewright up`"
        )
    return ImageTable(config.image_table)


def image_of(root: Path, manager: str) -> Image:
    """Return the image of the project in the folder `root`: its program, run by this interpreter as a built image runs
    it.
    """
    folders = [str(each) for each in (root / "src", root) if each.is_dir()]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    environment = {_CODE: os.pathsep.join(folders), "PATH": path, "PYTHONUNBUFFERED": "1"}
    return Image((sys.executable, "-m", manager.partition(":")[0]), env=environment, sandbox=False)


def same_project(image: Image, other: Image) -> bool:
    """Return whether both images run the code of one project. The interpreters may differ."""
    return image.command[1:] == other.command[1:] and image.env.get(_CODE) == other.env.get(_CODE)


async def put_image(client: Client, table: ImageTable, manifests: Manifests, image: Image) -> bool:
    """Map the manager's image to `image`. Returns whether the image meant something else before.

    Raises ConfigError if another project's Deployment uses that image: its Pods would run this project's code.
    """
    name = manifests.settings.image
    before = table.get(name)
    if before is not None and not same_project(before, image):
        user = await _other_user(client, manifests)
        if user is not None:
            raise ConfigError(
                f"image {name} belongs to another project on this control plane: Deployment {user} runs the code in "
                f"{_folder(before)} with it. Choose another image: --image NAME, or image in [tool.kubewright]"
            )
    if before != image:
        table.put(name, image)
    return before != image


def foreign_image(table: ImageTable, manifests: Manifests, image: Image) -> str | None:
    """Return the folder of another project whose code the manager's image runs now; None if the image is this
    project's.
    """
    found = table.get(manifests.settings.image)
    return None if found is None or same_project(found, image) else _folder(found)


def forget_images(config: Config, root: Path, manager: str, images: Iterable[str]) -> None:
    """Remove those `images` from the table that run this project's code. Images of other projects remain."""
    table = table_of(config)
    if table is None:
        return
    own = image_of(root, manager)
    for name in images:
        found = table.get(name)
        if found is not None and same_project(found, own):
            table.remove(name)


def mark(deployment: JSONObject, root: Path, image: Image) -> None:
    """Annotate the Pods of a Deployment with a digest of their code, so that new code is rolled out."""
    digest = hashlib.sha256(repr(image).encode())
    for path in sorted((root / "src" if (root / "src").is_dir() else root).rglob("*.py")):
        digest.update(str(path).encode() + b"\0" + path.read_bytes() + b"\0")
    metadata = deployment["spec"]["template"]["metadata"]
    metadata["annotations"] = {**metadata.get("annotations", {}), PROGRAM: digest.hexdigest()[:16]}


async def _other_user(client: Client, manifests: Manifests) -> str | None:
    """Return another Deployment whose Pods have the manager's image and run a project's code."""
    own = (manifests.settings.namespace, names_of(manifests).of(MANAGER))
    for each in await client.list(Deployment):
        template = each.spec.template
        if (each.metadata.namespace, each.metadata.name) == own:
            continue
        images = [container.image for container in template.spec.containers]
        if PROGRAM in template.metadata.annotations and manifests.settings.image in images:
            return f"{each.metadata.namespace}/{each.metadata.name}"
    return None


def _folder(image: Image) -> str:
    """Return the project folder of an image."""
    last = image.env.get(_CODE, "").split(os.pathsep)[-1]
    return last or " ".join(image.command)
