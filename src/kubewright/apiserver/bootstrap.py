"""What every cluster holds: system namespaces, priority classes, the bootstrap RBAC roles, flow control.

Follows the bootstrap post-start hooks of kube-apiserver.
"""

from __future__ import annotations

from kubewright.apiserver import catalog
from kubewright.apiserver.registry.objects import decode_json, encode_json
from kubewright.apiserver.registry.registry import Registry
from kubewright.apiserver.registry.resourceset import ResourceSet


def create_missing(resources: ResourceSet) -> None:
    """Create what is not there. What is there stays as it is: its owner may have changed it."""
    by_kind: dict[tuple[str, str], Registry] = {}
    for obj in catalog.bootstrap_objects():
        kind = (obj["apiVersion"], obj["kind"])
        if kind not in by_kind:
            by_kind[kind] = _registry_of(resources, *kind)
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "")
        if not by_kind[kind].has(metadata["name"], namespace):
            by_kind[kind].create(decode_json(encode_json(obj)), namespace)


def _registry_of(resources: ResourceSet, api_version: str, kind: str) -> Registry:
    found = next(each for each in resources if each.kind == kind and each.api_version == api_version)
    return resources.registry(found.qualified)
