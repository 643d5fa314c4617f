"""The objects that a new API server creates: namespaces, RBAC, priority classes, flow control."""

from __future__ import annotations

import json

from server import Server

from kubewright.machinery.json import JSONObject

COLLECTIONS = (
    "/api/v1/namespaces",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
)
SET_BY_SERVER = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")


def read(server: Server) -> list[JSONObject]:
    """Return the objects in an order in which they can be created."""
    objects: list[JSONObject] = []
    for collection in COLLECTIONS:
        listing = json.loads(server.get(collection))
        kind = listing["kind"].removesuffix("List")
        for item in listing["items"]:
            metadata = {key: value for key, value in item["metadata"].items() if key not in SET_BY_SERVER}
            item.pop("status", None)
            objects.append({"apiVersion": listing["apiVersion"], "kind": kind, **item, "metadata": metadata})
    return objects
