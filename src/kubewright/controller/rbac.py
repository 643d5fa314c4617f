"""The RBAC rules that follow from what a controller declares.

Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/; verbs as kubebuilder's scaffold asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


class Undeclared:
    """Tells of each resource that a controller writes without having declared it, once."""

    def __init__(self, rules: Sequence[PolicyRule], tell: Callable[[str], None]) -> None:
        """`rules` are what follows from what is declared; `tell` is called with the resource, `configmaps`."""
        self._rules = rules
        self._tell = tell
        self._looked_at: set[tuple[str, str]] = set()

    def look(self, kind: type[Object]) -> None:
        """An object of `kind` is about to be written."""
        api = kind.__api__
        resource = (api.group, api.plural)
        if resource not in self._looked_at:
            self._looked_at.add(resource)
            if not any(_writes(rule, *resource) for rule in self._rules):
                self._tell(api.gvr.qualified_resource)


def _writes(rule: PolicyRule, group: str, plural: str) -> bool:
    """Whether `rule` lets something of a resource, or of a part of it, be written."""
    resources = {each.partition("/")[0] for each in rule.resources}
    return (
        not {"*", group}.isdisjoint(rule.api_groups)
        and not {"*", plural}.isdisjoint(resources)
        and not set(rule.verbs) <= set(READ)
    )
