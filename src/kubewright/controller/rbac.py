"""The RBAC rules that follow from what a controller declares.

Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/; verbs as kubebuilder's scaffold asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubewright.models import Object
from kubewright.models.rbac import PolicyRule

READ: Final = ("get", "list", "watch")
WRITE: Final = (*READ, "create", "update", "patch", "delete")


def rule(kind: type[Object], verbs: Sequence[str], subresource: str = "") -> PolicyRule:
    """Leave to do `verbs` on a kind, or on a subresource of it."""
    api = kind.__api__
    resource = f"{api.plural}/{subresource}" if subresource else api.plural
    return PolicyRule(api_groups=[api.group], resources=[resource], verbs=list(verbs))


def rules_for(kind: type[Object], has_finalizer: bool) -> list[PolicyRule]:
    """What reconciling a kind takes: reading it, its finalizer, its status, and references that block its deletion.

    Setting `blockOwnerDeletion` needs the right to update finalizers where the OwnerReferencesPermissionEnforcement
    admission plugin is on.
    """
    own = [rule(kind, (*READ, "update", "patch") if has_finalizer else READ)]
    if "status" in kind.__api__.subresources:
        own.append(rule(kind, ("get", "update", "patch"), "status"))
    return [*own, rule(kind, ("update",), "finalizers")]
