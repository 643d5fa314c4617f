"""The types of the catalog's facts."""

from __future__ import annotations

from dataclasses import dataclass

from kubewright.machinery.gvk import GroupVersion, GroupVersionKind, GroupVersionResource


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One API group with its served versions, the preferred one first."""

    name: str
    versions: tuple[str, ...]

    @property
    def group_versions(self) -> tuple[GroupVersion, ...]:
        return tuple(GroupVersion(self.name, version) for version in self.versions)


@dataclass(frozen=True, slots=True)
class SubresourceFacts:
    """A subresource of a built-in resource, such as `status`, `scale`, `log`."""

    name: str
    """Without the resource: `status`, not `pods/status`."""
    kind: GroupVersionKind
    """The kind of the subresource's documents, possibly of another group (`autoscaling/v1, Kind=Scale`)."""
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResourceFacts:
    """The discovery data of one built-in resource in one group version."""

    resource: GroupVersionResource
    kind: GroupVersionKind
    """The kind of the resource's objects."""
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage_version_hash: str = ""
    subresources: tuple[SubresourceFacts, ...] = ()

    @property
    def list_kind(self) -> str:
        return f"{self.kind.kind}List"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a Table (meta/v1 TableColumnDefinition). Columns with a `priority` above 0 are shown in wide
    output only.
    """

    name: str
    type: str
    format: str
    description: str
    priority: int


@dataclass(frozen=True, slots=True)
class OpenAPIDocument:
    """An OpenAPI v3 document, as a real API server publishes it."""

    json: bytes
    gzip: bytes
    """The same bytes, compressed: the body for a client that accepts gzip."""
    hash: str
    """SHA-512 of `json` in upper-case hex, as `/openapi/v3` names it in `serverRelativeURL`."""


@dataclass(frozen=True, slots=True)
class OptionalAPI:
    """A group version that is off by default, and what a server has only while it is on."""

    feature_gate: str
    """The feature gate that a real API server needs, in addition to `--runtime-config`."""
    roles: frozenset[str]
    """The names of bootstrap roles and bindings."""
