"""Images of bundles on an embedded control plane, where Pods run commands: see `deployment.embedded`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec

from kubewright.client import Client, Config
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject
from kubewright_cli.deployment.embedded import image_of, mark, put_image, table_of
from kubewright_cli.installation.source import InstallableBundle
from kubewright_cli.manifests.names import MANAGER
from kubewright_cli.manifests.settings import Settings
from kubewright_cli.olm.parts import items, mapping, text
from kubewright_cli.olm.serviceversion import complete_names, name_of
from kubewright_cli.project import Project


class ProgramImages:
    """The images of a bundle that stand for the program of the project that the bundle is in."""

    def __init__(self, project: Project | None, image: str = "") -> None:
        self._project = project
        self._image = image

    def adapt(self, deployment: JSONObject) -> None:
        """Mark the Pods of a Deployment that runs the program, so that new code is rolled out."""
        if self._project is not None and self._image in _images(deployment["spec"]):
            root = self._project.root
            mark(deployment, root, image_of(root, self._project.settings.manager))


async def map_images(
    client: Client, config: Config, bundle: InstallableBundle, namespace: str
) -> tuple[ProgramImages, list[str]]:
    """On an embedded control plane, map the image of the project around the bundle to the project's program.

    Also returns the images that have no command there: their Pods are simulated. Raises ConfigError if another
    project's Deployment uses the image.
    """
    table = table_of(config)
    if table is None:
        return ProgramImages(None), []
    images = list(dict.fromkeys(image for each in bundle.deployments for image in _images(mapping(each.get("spec")))))
    project = _project_around(bundle.folder)
    own = _program_image(project.settings, bundle) if project is not None else ""
    if project is not None and own in images:
        manifests = project.manifests()
        settings = msgspec.structs.replace(manifests.settings, namespace=namespace, image=own)
        image = image_of(project.root, settings.manager)
        await put_image(client, table, dataclasses.replace(manifests, settings=settings), image)
    else:
        project = None
    return ProgramImages(project, own), [each for each in images if table.get(each) is None]


def _program_image(settings: Settings, bundle: InstallableBundle) -> str:
    """Return the image of the project's program: in the project's current bundle, that of the manager's Deployment."""
    if bundle.name == name_of(settings):
        manager = complete_names(settings).of(MANAGER)
        for each in bundle.deployments:
            if each.get("name") == manager:
                return next(iter(_images(mapping(each.get("spec")))), settings.image)
    return settings.image


def _images(spec: JSONObject) -> list[str]:
    pod = mapping(mapping(spec.get("template")).get("spec"))
    return [text(each.get("image")) for each in (*items(pod.get("initContainers")), *items(pod.get("containers")))]


def _project_around(folder: Path) -> Project | None:
    """Return the project that a bundle is in; None if it is in none with a Manager."""
    try:
        project = Project.load(folder)
    except ConfigError:
        return None
    return project if project.program is not None else None
