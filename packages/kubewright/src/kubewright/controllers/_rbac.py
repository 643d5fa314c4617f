"""The RBAC rules that follow from what a controller declares.

Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/; verbs as kubebuilder's scaffold asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kubewright.models import CustomResource, Object
from kubewright.models._rbac import PolicyRule

READ: Final = ("get", "list", "watch")
WRITE: Final = (*READ, "create", "update", "patch", "delete")


def rule(kind: type[Object], verbs: Sequence[str], subresource: str = "") -> PolicyRule:
    """Leave to do `verbs` on a kind, or on a subresource of it."""
    api = kind.__api__
    resource = f"{api.plural}/{subresource}" if subresource else api.plural
    return PolicyRule(api_groups=[api.group], resources=[resource], verbs=list(verbs))


def rules_for(kind: type[Object], *, has_finalizer: bool, is_owner: bool) -> list[PolicyRule]:
    """What reconciling a kind takes: reading it, and of its status, its finalizer and its children what there is.

    The status of a built-in kind is Kubernetes' own. An owner reference that blocks the owner's deletion needs the
    right to update its finalizers where the admission plugin OwnerReferencesPermissionEnforcement is on.
    """
    own = [rule(kind, (*READ, "update", "patch") if has_finalizer else READ)]
    if issubclass(kind, CustomResource) and "status" in kind.__api__.subresources:
        own.append(rule(kind, ("get", "update", "patch"), "status"))
    if is_owner:
        own.append(rule(kind, ("update",), "finalizers"))
    return own


class Undeclared:
    """Reports each resource that a controller writes without having declared it, once."""

    def __init__(self, rules: Sequence[PolicyRule], tell: Callable[[str], None]) -> None:
        """`rules` follow from what is declared; `tell` is called with the resource, like `deployments.apps/status`."""
        self._rules = rules
        self._tell = tell
        self._looked_at: set[tuple[type[Object], str]] = set()

    def look(self, kind: type[Object], subresource: str = "") -> None:
        """An object of `kind` is about to be written, or a subresource of it."""
        if (kind, subresource) in self._looked_at:
            return
        self._looked_at.add((kind, subresource))
        if not any(_writes(each, kind, subresource) for each in self._rules):
            resource = kind.__api__.gvr.qualified_resource
            self._tell(f"{resource}/{subresource}" if subresource else resource)


def _writes(rule: PolicyRule, kind: type[Object], subresource: str) -> bool:
    """Whether `rule` lets objects of a kind be written in some way, or that subresource of theirs."""
    api = kind.__api__
    named = {f"{api.plural}/{subresource}", f"*/{subresource}"} if subresource else {api.plural}
    return (
        not {"*", api.group}.isdisjoint(rule.api_groups)
        and not {"*", *named}.isdisjoint(rule.resources)
        and not set(rule.verbs) <= set(READ)
    )
