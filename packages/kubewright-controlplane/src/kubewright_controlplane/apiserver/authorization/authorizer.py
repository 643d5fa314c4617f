"""RBAC that observes the stored roles and bindings, including aggregated ClusterRoles.

On a real cluster the controller manager aggregates ClusterRoles (`clusterrole-aggregation-controller`). Here `admin`,
`edit` and `view` have their rules even if no controllers run.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kubewright.machinery.json import JSONObject
from kubewright.machinery.selectors import Selector
from kubewright_controlplane.apiserver.authorization.nodes import NodeAuthorizer, NodesAndRBAC
from kubewright_controlplane.apiserver.authorization.rbac import RBAC
from kubewright_controlplane.apiserver.authorization.rules import decode_rules
from kubewright_controlplane.apiserver.registry.options import WriteCall, WriteOptions
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.registry.writes import finish
from kubewright_controlplane.apiserver.storage.events import Event

_CLUSTER_ROLES: Final = "clusterroles.rbac.authorization.k8s.io"
_VERSION: Final = "rbac.authorization.k8s.io/v1"
_MANAGER: Final = "clusterrole-aggregation-controller"
"""The owner of aggregated rules, which is a controller on a real cluster."""
_KINDS: Final = {
    "Role": "roles",
    "ClusterRole": "clusterroles",
    "RoleBinding": "rolebindings",
    "ClusterRoleBinding": "clusterrolebindings",
}


def build_authorizer(resources: ResourceSet, *, allow_all: bool = False, nodes: bool = True) -> NodesAndRBAC:
    """Build an authorizer that observes the roles and bindings of a server, or one that allows every request.

    With `nodes`, the Node authorizer decides too.
    """
    rbac = RBAC(allow_all=allow_all)
    for kind, plural in _KINDS.items():

        def on_commit(event: Event, kind: str = kind) -> None:
            if event.type == "DELETED":
                rbac.remove(kind, event.entry.namespace, event.entry.name)
            elif kind in ("Role", "ClusterRole"):
                rbac.put_role(event.entry.namespace, event.entry.name, decode_rules(event.entry.data))
            else:
                rbac.put_binding(kind, resources.decode(event.entry.data))

        resources.observe(f"{plural}.rbac.authorization.k8s.io", on_commit)
    Aggregation(resources)
    return NodesAndRBAC(NodeAuthorizer(resources) if nodes else None, rbac)


class Aggregation:
    """Keeps the rules of ClusterRoles with an `aggregationRule` up to date."""

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources
        self._selectors: dict[str, list[Selector]] = {}
        resources.observe(_CLUSTER_ROLES, self._on_commit)

    def _on_commit(self, event: Event) -> None:
        name = event.entry.name
        self._selectors.pop(name, None)
        if event.type != "DELETED":
            given = _selectors(event.entry.data)
            if given:
                self._selectors[name] = [Selector.from_dict(each) for each in given]
                self._aggregate(name)
        was = event.previous.labels if event.previous else {}
        for other, selectors in list(self._selectors.items()):
            chosen = any(each.matches(labels) for each in selectors for labels in (event.entry.labels, was))
            if other != name and chosen:
                self._aggregate(other)

    def _aggregate(self, name: str) -> None:
        registry = self._resources.find("rbac.authorization.k8s.io", "v1", "clusterroles")
        if registry is None:  # roles from an earlier run are loaded before the kind is served, and are already complete
            return
        if not registry.has(name):
            return
        rules = self._rules(name)
        if rules != (registry.open(name).old.get("rules") or []):
            role = {"apiVersion": _VERSION, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
            finish(registry.begin_apply(name, role, call=WriteCall(WriteOptions(field_manager=_MANAGER, force=True))))

    def _rules(self, name: str) -> list[JSONObject]:
        """Return the rules of all roles that the role's selectors match, in the order of their names, without
        repetition.
        """
        found: dict[bytes, JSONObject] = {}
        entries = self._resources.registry(_CLUSTER_ROLES).entries()
        for selector in self._selectors[name]:
            for entry in entries:
                if entry.name != name and selector.matches(entry.labels):
                    for rule in self._resources.decode(entry.data).get("rules") or ():
                        found.setdefault(_identity(rule), rule)
        return list(found.values())


class _ClusterRole(msgspec.Struct):
    """The part of a stored ClusterRole that says which roles it aggregates."""

    aggregationRule: JSONObject | None = None


def _selectors(data: bytes) -> list[JSONObject]:
    rule = msgspec.json.decode(data, type=_ClusterRole).aggregationRule or {}
    return rule.get("clusterRoleSelectors") or []


_identity: Final = msgspec.json.Encoder(order="deterministic").encode
