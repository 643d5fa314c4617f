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
    """Reports each resource that a controller reads from the cache or writes without declaring it, once."""

    def __init__(self, rules: Sequence[PolicyRule], report: Callable[[type[Object], str, bool], None]) -> None:
        """`rules` follow from the declaration. `report` is called with the kind, with the resource as in
        `deployments.apps/status`, and with whether it is written.
        """
        self._rules = rules
        self._report = report
        self._read: set[type[Object]] = set()
        self._written: set[tuple[type[Object], str]] = set()

    def read(self, kind: type[Object]) -> None:
        """Check a read of `kind` from the cache, which lists and watches the kind."""
        if kind in self._read:
            return
        self._read.add(kind)
        verbs = {verb for each in self._rules if _concerns(each, kind) for verb in each.verbs}
        if "*" not in verbs and not {"list", "watch"} <= verbs:
            self._report(kind, kind.__api__.gvr.qualified_resource, False)

    def write(self, kind: type[Object], subresource: str = "") -> None:
        """Check a write of `kind` or of one of its subresources, before it is sent."""
        if (kind, subresource) in self._written:
            return
        self._written.add((kind, subresource))
        if not any(_concerns(each, kind, subresource) and not set(each.verbs) <= set(READ) for each in self._rules):
            resource = kind.__api__.gvr.qualified_resource
            self._report(kind, f"{resource}/{subresource}" if subresource else resource, True)


def _concerns(rule: PolicyRule, kind: type[Object], subresource: str = "") -> bool:
    """Return whether `rule` allows anything for a kind, or for that subresource of it."""
    api = kind.__api__
    named = {f"{api.plural}/{subresource}", f"*/{subresource}"} if subresource else {api.plural}
    return not {"*", api.group}.isdisjoint(rule.api_groups) and not {"*", *named}.isdisjoint(rule.resources)
