"""Reading other objects inside a write, and what several actions answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.machinery.errors import Status
from kubewright.machinery.json import JSONObject

if TYPE_CHECKING:
    from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet


def existing(resources: ResourceSet, qualified: str, name: str, namespace: str = "") -> JSONObject:
    """An object that has to be there. Raises NotFound."""
    return resources.decode(resources.registry(qualified).entry(name, namespace).data)


def success() -> JSONObject:
    """The answer of an action that has nothing to show."""
    return Status(code=201, status="Success").to_dict()
