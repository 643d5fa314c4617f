"""The RBAC rules that follow from the declaration of a controller.

Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/; the verbs are those of kubebuilder's scaffold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kubewright.models import CustomResource, Object
from kubewright.models._rbac import PolicyRule

READ: Final = ("get", "list", "watch")
WRITE: Final = (*READ, "create", "update", "patch", "delete")


def rule(kind: type[Object], verbs: Sequence[str], subresource: str = "") -> PolicyRule:
    """Return a rule that allows `verbs` on a kind or on one of its subresources."""
    api = kind.__api__
    resource = f"{api.plural}/{subresource}" if subresource else api.plural
    return PolicyRule(api_groups=[api.group], resources=[resource], verbs=list(verbs))


def rules_for(kind: type[Object], *, has_finalizer: bool, is_owner: bool) -> list[PolicyRule]:
    """Return the rules for reconciling a kind: to read it, and to write its status and its finalizers as needed.

    Kubernetes itself writes the status of built-in kinds. With the admission plugin
    OwnerReferencesPermissionEnforcement, an owner reference that blocks the owner's deletion needs the permission to
    update the owner's finalizers.
    """
    own = [rule(kind, (*READ, "update", "patch") if has_finalizer else READ)]
    if issubclass(kind, CustomResource) and "status" in kind.__api__.subresources:
        own.append(rule(kind, ("get", "update", "patch"), "status"))
    if is_owner:
        own.append(rule(kind, ("update",), "finalizers"))
    return own


class Undeclared:
    """Reports each resource that a controller writes without declaring it, once."""

    def __init__(self, rules: Sequence[PolicyRule], report: Callable[[str], None]) -> None:
        """`rules` follow from the declaration. `report` is called with resources such as `deployments.apps/status`."""
        self._rules = rules
        self._report = report
        self._seen: set[tuple[type[Object], str]] = set()

    def look(self, kind: type[Object], subresource: str = "") -> None:
        """Check a write of `kind` or of one of its subresources, before it is sent."""
        if (kind, subresource) in self._seen:
            return
        self._seen.add((kind, subresource))
        if not any(_allows_writes(each, kind, subresource) for each in self._rules):
            resource = kind.__api__.gvr.qualified_resource
            self._report(f"{resource}/{subresource}" if subresource else resource)


def _allows_writes(rule: PolicyRule, kind: type[Object], subresource: str) -> bool:
    """Return whether `rule` allows any write of a kind, or of that subresource."""
    api = kind.__api__
    named = {f"{api.plural}/{subresource}", f"*/{subresource}"} if subresource else {api.plural}
    return (
        not {"*", api.group}.isdisjoint(rule.api_groups)
        and not {"*", *named}.isdisjoint(rule.resources)
        and not set(rule.verbs) <= set(READ)
    )
