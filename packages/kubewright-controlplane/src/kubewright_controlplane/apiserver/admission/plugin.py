"""The interface of admission plugins, and their common functions.

Follows k8s.io/apiserver/pkg/admission.
"""

from __future__ import annotations

from typing import Protocol

from kubewright.machinery.errors import Forbidden
from kubewright_controlplane.apiserver.authorization.attributes import forbidden_object
from kubewright_controlplane.apiserver.registry.model import Attributes


class AdmissionPlugin(Protocol):
    """One plugin of the chain. Both methods run synchronously between the read and the commit of a write.

    `admit` may change `attributes.object`; `validate` sees the final object. Either rejects the write by raising an
    APIError, usually Forbidden. Writes of subresources pass through as well: a plugin checks `attributes` first and
    returns immediately if the write does not concern it.

    For a large write, both run on the worker: they change only the object, except by `steps.on_loop` in `admit`.
    `validate` runs again right before the commit of a write that has waited.
    """

    name: str

    @property
    def only_for(self) -> tuple[str, ...]:
        """Names of the resources whose writes pass through the plugin. Empty: those of all resources."""
        ...

    def admit(self, attributes: Attributes) -> None: ...

    def validate(self, attributes: Attributes) -> None: ...


class Plugin:
    """A plugin that accepts every write. Subclasses override one method or both."""

    name: str = ""
    only_for: tuple[str, ...] = ()

    def admit(self, attributes: Attributes) -> None:
        """Change `attributes.object`, or reject the write."""

    def validate(self, attributes: Attributes) -> None:
        """Reject the final object, or return."""


def concerns(attributes: Attributes, qualified: str, *operations: str) -> bool:
    """Return whether this is one of these operations on a resource itself, not on a subresource."""
    return (
        not attributes.subresource
        and attributes.operation in operations
        and attributes.resource.qualified == qualified
    )  # fmt: skip


def is_resize(attributes: Attributes) -> bool:
    """Return whether the write changes the resources of a Pod."""
    return (
        attributes.subresource == "resize"
        and attributes.operation == "UPDATE"
        and attributes.resource.qualified == "pods"
    )  # fmt: skip


def rejection(attributes: Attributes, why: str) -> Forbidden:
    """Return the error of a rejected write: `pods "a" is forbidden: <why>`."""
    resource = attributes.resource
    return forbidden_object(resource.group, resource.plural, object_name(attributes), why)


def object_name(attributes: Attributes) -> str:
    """Return the name of the object for error messages: until the name is generated, the prefix of it."""
    metadata = (attributes.object or {}).get("metadata") or {}
    return attributes.name or metadata.get("generateName") or "Unknown"
