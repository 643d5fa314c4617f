"""Which project a Deployment belongs to: an annotation with the CRDs of the project.

Two projects of one name have the same names for all objects except CRDs. Without the annotation, the second one would
replace the manager of the first one.
"""

from __future__ import annotations

from typing import Final

from kubewright.apis.apps.v1 import Deployment
from kubewright.client import Client
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject
from kubewright_cli.deployment.objects import names_of
from kubewright_cli.manifests import Manifests
from kubewright_cli.manifests.names import MANAGER

CRDS: Final = "kubewright.dev/crds"
"""The annotation of the manager's Deployment: names of CRDs, with commas."""


def claim(deployment: JSONObject, manifests: Manifests) -> None:
    """Annotate a Deployment with the CRDs of its project."""
    metadata = deployment["metadata"]
    metadata["annotations"] = {**metadata.get("annotations", {}), CRDS: ",".join(_crds(manifests))}


RENAME: Final = "rename this project (name in [project])"
"""The way out for the project that came second."""


async def require_own(client: Client, manifests: Manifests, remedy: str) -> None:
    """Raise ConfigError if the manager's Deployment belongs to another project: one without a CRD in common.

    `remedy` ends the message.
    A Deployment without the annotation, or of a project without CRDs, may belong to any project.
    """
    settings = manifests.settings
    found = await client.get_or_none(Deployment, names_of(manifests).of(MANAGER), namespace=settings.namespace)
    theirs = found.metadata.annotations.get(CRDS, "") if found is not None else ""
    own = _crds(manifests)
    if found is None or not theirs or not own or not set(own).isdisjoint(theirs.split(",")):
        return
    raise ConfigError(
        f"Deployment {settings.namespace}/{found.metadata.name} belongs to another project named {settings.name}: that "
        f"project defines {theirs.replace(',', ', ')}, this one defines {', '.join(own)}. {remedy}"
    )


def _crds(manifests: Manifests) -> list[str]:
    return sorted(str(each["metadata"]["name"]) for each in manifests.crds)
