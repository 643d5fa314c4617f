"""What the plugins share: a plugin that does nothing, and how one refuses.

Follows k8s.io/apiserver pkg/admission.
"""

from __future__ import annotations

from kubewright.machinery.errors import Forbidden
from kubewright_controlplane.apiserver.authorization.attributes import forbidden_object
from kubewright_controlplane.apiserver.registry.attributes import Attributes


class Plugin:
    """A plugin that lets everything pass; others override what they care for."""

    name: str = ""

    def admit(self, attributes: Attributes) -> None:
        """Change `attributes.object`, or refuse."""

    def validate(self, attributes: Attributes) -> None:
        """Refuse the final object."""


def concerns(attributes: Attributes, qualified: str, *operations: str) -> bool:
    """Whether this is one of these operations on a resource itself, not on a subresource."""
    return (
        not attributes.subresource
        and attributes.operation in operations
        and attributes.resource.qualified == qualified
    )  # fmt: skip


def refuse(attributes: Attributes, why: str) -> Forbidden:
    """A refusal: `pods "a" is forbidden: <why>`."""
    resource = attributes.resource
    return forbidden_object(resource.group, resource.plural, attributes.name, why)
