"""The facts about Kubernetes' built-in kinds: discovery, schemas, defaults, printer columns, what a fresh cluster holds.

All of it was read from a running kube-apiserver (`tools/extract`; where each part came from is told in
`apiserver/data/README.md`) and is kept compressed beside this package. Importing the catalog reads nothing; a fact is
read when it is first asked for and then kept. What is handed out is shared: never change it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubewright.apiserver.catalog.facts import (
    Column,
    GroupFacts,
    OpenAPIDocument,
    ResourceFacts,
    SubresourceFacts,
)
from kubewright.machinery.gvk import GroupVersion, GroupVersionKind, GroupVersionResource
from kubewright.machinery.json import JSONObject

__all__ = [
    "Column",
    "GroupFacts",
    "OpenAPIDocument",
    "ResourceFacts",
    "SubresourceFacts",
    "bootstrap_objects",
    "columns",
    "components",
    "group_versions",
    "groups",
    "openapi_paths",
    "openapi_v3",
    "resources",
    "schema_ref",
    "version",
]


def groups() -> tuple[GroupFacts, ...]:
    """The built-in API groups in the order of discovery; the core group is first and has no name."""
    raise NotImplementedError


def group_versions() -> tuple[GroupVersion, ...]:
    """Every group version that is served, in the order of discovery."""
    raise NotImplementedError


def resources(gv: GroupVersion) -> tuple[ResourceFacts, ...]:
    """The resources of a group version, by plural. Empty for a group version that is not built in."""
    raise NotImplementedError


def components() -> Mapping[str, JSONObject]:
    """Every schema of every built-in kind, by its OpenAPI name (`io.k8s.api.core.v1.Pod`), without descriptions.

    A `default` in it is one that the API server really applies: the placeholders of the published documents
    (`""`, `{}`, `0`) are gone, and the defaults that only the server's code knows are in their place.
    """
    raise NotImplementedError


def schema_ref(gvk: GroupVersionKind) -> str:
    """The `$ref` of a kind's schema: `#/components/schemas/io.k8s.api.core.v1.Pod`. KeyError for an unknown kind."""
    raise NotImplementedError


def columns(gvr: GroupVersionResource) -> tuple[Column, ...]:
    """The columns of a built-in resource's Table, in order. KeyError for an unknown resource."""
    raise NotImplementedError


def openapi_paths() -> Mapping[str, str]:
    """The OpenAPI v3 documents there are: path without leading slash (`api/v1`, `apis/apps/v1`) to hash."""
    raise NotImplementedError


def openapi_v3(path: str) -> OpenAPIDocument:
    """The document published at `/openapi/v3/<path>`, `GroupVersion.path[1:]`. KeyError for an unknown path.

    Schemas in it have their descriptions; a generator of typed models reads them here.
    """
    raise NotImplementedError


def bootstrap_objects() -> tuple[JSONObject, ...]:
    """What a fresh cluster holds before anyone writes to it, in an order in which it can be created.

    Namespaces, the bootstrap RBAC roles and bindings, priority classes, flow schemas and priority levels.
    Without uid, resourceVersion, creationTimestamp and managedFields.
    """
    raise NotImplementedError


def version() -> JSONObject:
    """The body of `/version` of the API server that the facts were read from."""
    raise NotImplementedError
