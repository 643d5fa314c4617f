"""Facts about the built-in kinds: discovery, schemas, defaults, printer columns, and the objects of a new cluster.

All facts were read from a running kube-apiserver by `tools/extract`; `apiserver/data/README.md` lists the source of
each. They are stored compressed next to this package. Importing the catalog reads nothing; each fact is read on first
use and then kept. The returned values are shared: do not change them.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from kubewright.machinery.gvk import GroupVersion, GroupVersionKind, GroupVersionResource
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.catalog.facts import (
    Column,
    GroupFacts,
    OpenAPIDocument,
    OptionalAPI,
    ResourceFacts,
    SubresourceFacts,
)

__all__ = [
    "OPTIONAL",
    "Column",
    "GroupFacts",
    "OpenAPIDocument",
    "OptionalAPI",
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


OPTIONAL: Final[Mapping[GroupVersion, OptionalAPI]] = {
    GroupVersion("storagemigration.k8s.io", "v1beta1"): OptionalAPI(
        "StorageVersionMigrator", frozenset({"system:controller:storage-version-migrator-controller"})
    ),
}
"""The group versions that are off by default. All other functions of this module return their facts too."""

_DATA: Final = Path(__file__).parents[1] / "data"


@cache
def groups() -> tuple[GroupFacts, ...]:
    """Return the built-in API groups in the order of discovery. The core group is first and has an empty name."""
    return tuple(
        GroupFacts(group["name"], tuple(version["version"] for version in group["versions"])) for group in _discovery()
    )


@cache
def group_versions() -> tuple[GroupVersion, ...]:
    """Return every served group version, in the order of discovery."""
    return tuple(gv for group in groups() for gv in group.group_versions)


def resources(gv: GroupVersion) -> tuple[ResourceFacts, ...]:
    """Return the resources of a group version, by plural; empty for a group version that is not built in."""
    return _resources().get(gv, ())


@cache
def components() -> Mapping[str, JSONObject]:
    """Return all schemas of all built-in kinds, by OpenAPI name (`io.k8s.api.core.v1.Pod`), without descriptions.

    Each `default` in them is one that the API server applies. The placeholders of the published documents (`""`,
    `{}`, `0`) are removed, and the defaults that exist only in the server's code are added.
    """
    schemas: Mapping[str, JSONObject] = _schemas()["schemas"]
    return schemas


def schema_ref(gvk: GroupVersionKind) -> str:
    """Return the `$ref` of a kind's schema: `#/components/schemas/io.k8s.api.core.v1.Pod`. Raises KeyError for an
    unknown kind.
    """
    return f"#/components/schemas/{_schemas()['kinds'][f'{gvk.api_version}/{gvk.kind}']}"


@cache
def columns(gvr: GroupVersionResource) -> tuple[Column, ...]:
    """Return the Table columns of a built-in resource. Raises KeyError for a resource that cannot be listed."""
    return tuple(Column(*column) for column in _columns()[f"{gvr.group_version}/{gvr.resource}"])


@cache
def openapi_paths() -> Mapping[str, str]:
    """Return the OpenAPI v3 documents: path without leading slash (`api/v1`, `apis/apps/v1`) to hash."""
    paths: Mapping[str, str] = _read("openapi.json")
    return paths


@cache
def openapi_v3(path: str) -> OpenAPIDocument:
    """Return the document published at `/openapi/v3/<path>`, `GroupVersion.path[1:]`. Raises KeyError for an unknown
    path.

    Its schemas have descriptions, which the generator of typed models uses.
    """
    digest = openapi_paths()[path]
    compressed = (_DATA / "openapi" / f"{path.replace('/', '~')}.json.gz").read_bytes()
    return OpenAPIDocument(_uncompressed(compressed), compressed, digest)


@cache
def bootstrap_objects() -> tuple[JSONObject, ...]:
    """Return the objects of a new cluster, in an order in which they can be created.

    They are namespaces, priority classes, the bootstrap RBAC roles and bindings, priority levels and flow schemas,
    without uid, resourceVersion, creationTimestamp, generation, managedFields and status.
    """
    return tuple(_read("bootstrap.json"))


@cache
def version() -> JSONObject:
    """Return the body of `/version` of the API server that the facts come from."""
    body: JSONObject = _read("version.json")
    return body


@cache
def _discovery() -> list[JSONObject]:
    groups: list[JSONObject] = _read("discovery.json")
    return groups


@cache
def _resources() -> dict[GroupVersion, tuple[ResourceFacts, ...]]:
    return {
        gv: tuple(_resource(gv, each) for each in version["resources"])
        for group in _discovery()
        for version in group["versions"]
        for gv in [GroupVersion(group["name"], version["version"])]
    }


def _resource(gv: GroupVersion, facts: JSONObject) -> ResourceFacts:
    return ResourceFacts(
        resource=GroupVersionResource(gv.group, gv.version, facts["name"]),
        kind=GroupVersionKind(*facts["kind"]),
        singular=facts["singular"],
        namespaced=facts["namespaced"],
        verbs=tuple(facts["verbs"]),
        short_names=tuple(facts["shortNames"]),
        categories=tuple(facts["categories"]),
        storage_version_hash=facts["storageVersionHash"],
        subresources=tuple(
            SubresourceFacts(each["name"], GroupVersionKind(*each["kind"]), tuple(each["verbs"]))
            for each in facts["subresources"]
        ),
    )


@cache
def _schemas() -> JSONObject:
    schemas: JSONObject = _read("schemas.json")
    return schemas


@cache
def _columns() -> dict[str, list[list[Any]]]:
    columns: dict[str, list[list[Any]]] = _read("columns.json")
    return columns


def _read(name: str) -> Any:
    return msgspec.json.decode(_uncompressed((_DATA / f"{name}.gz").read_bytes()))


def _uncompressed(content: bytes) -> bytes:
    return zlib.decompress(content, wbits=31)  # 31: a gzip header and trailer
