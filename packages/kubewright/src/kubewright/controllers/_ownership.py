"""Who belongs to whom: controller references.

Follows controller-runtime's pkg/controller/controllerutil.
Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/
"""

from __future__ import annotations

from kubewright.machinery.errors import ConfigError
from kubewright.models import Object
from kubewright.models._resource import owner_reference


def set_controller_reference(owner: Object, child: Object) -> None:
    """Make `owner` the controlling owner of `child`: it goes when the owner goes, and is found from it.

    Raises ConfigError when that can't be: another controller has it, or the owner lives in another namespace.
    """
    if owner.metadata.namespace and owner.metadata.namespace != child.metadata.namespace:
        raise ConfigError(
            f"{_described(owner)} cannot own {_described(child)}: an owner is in the same namespace as what it owns, "
            f"or cluster-scoped. Put the child into {owner.metadata.namespace!r}, or delete it in a finalizer"
        )
    for reference in child.metadata.owner_references:
        if reference.controller and reference.uid != owner.metadata.uid:
            raise ConfigError(
                f"{_described(child)} is controlled by {reference.kind} {reference.name!r} already; "
                f"{_described(owner)} cannot control it as well. Give the child another name"
            )
    others = [each for each in child.metadata.owner_references if each.uid != owner.metadata.uid]
    child.metadata.owner_references = [*others, owner_reference(owner)]


def is_controlled_by(child: Object, owner: Object) -> bool:
    """Whether `owner`, that very object and no namesake, is the controlling owner of `child`."""
    return any(each.controller and each.uid == owner.metadata.uid for each in child.metadata.owner_references)


def _described(obj: Object) -> str:
    meta = obj.metadata
    return f'{obj.kind} "{meta.namespace}/{meta.name}"' if meta.namespace else f'{obj.kind} "{meta.name}"'
