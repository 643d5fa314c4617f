"""Authorization: may they. RBAC decides; members of `system:masters` may do anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.apiserver.authorization.aggregation import Aggregation
from kubewright.apiserver.authorization.rbac import RBAC
from kubewright.apiserver.storage.events import Event

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer

__all__ = ["RBAC", "build"]

_KINDS = {
    "Role": "roles",
    "ClusterRole": "clusterroles",
    "RoleBinding": "rolebindings",
    "ClusterRoleBinding": "clusterrolebindings",
}


def build(server: APIServer) -> RBAC:
    """An authorizer that follows the server's roles and bindings."""
    rbac = RBAC()
    for kind, plural in _KINDS.items():

        def follow(event: Event, kind: str = kind) -> None:
            if event.type == "DELETED":
                rbac.remove(kind, event.entry.namespace, event.entry.name)
            else:
                rbac.put(kind, server.resources.decode(event.entry.data))

        server.resources.observe(f"{plural}.rbac.authorization.k8s.io", follow)
    Aggregation(server.resources)
    return rbac
