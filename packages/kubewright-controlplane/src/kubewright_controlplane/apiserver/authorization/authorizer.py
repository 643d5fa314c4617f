"""RBAC that observes the stored roles and bindings, including aggregated roles."""

from __future__ import annotations

from kubewright_controlplane.apiserver.authorization.aggregation import Aggregation
from kubewright_controlplane.apiserver.authorization.rbac import RBAC
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.events import Event

_KINDS = {
    "Role": "roles",
    "ClusterRole": "clusterroles",
    "RoleBinding": "rolebindings",
    "ClusterRoleBinding": "clusterrolebindings",
}


def build_authorizer(resources: ResourceSet) -> RBAC:
    """Build an authorizer that observes the roles and bindings of a server."""
    rbac = RBAC()
    for kind, plural in _KINDS.items():

        def on_commit(event: Event, kind: str = kind) -> None:
            if event.type == "DELETED":
                rbac.remove(kind, event.entry.namespace, event.entry.name)
            else:
                rbac.put(kind, resources.decode(event.entry.data))

        resources.observe(f"{plural}.rbac.authorization.k8s.io", on_commit)
    Aggregation(resources)
    return rbac
