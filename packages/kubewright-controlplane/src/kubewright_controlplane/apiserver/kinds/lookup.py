"""Reading other objects inside a write, and the answer of actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.machinery.errors import Status
from kubewright.machinery.json import JSONObject

if TYPE_CHECKING:
    from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet


def existing(resources: ResourceSet, qualified: str, name: str, namespace: str = "") -> JSONObject:
    """Return an object that must exist. Raises NotFound."""
    return resources.decode(resources.registry(qualified).entry(name, namespace).data)


def success() -> JSONObject:
    """Return the answer of an action without a result."""
    return Status(code=201, status="Success").to_dict()
