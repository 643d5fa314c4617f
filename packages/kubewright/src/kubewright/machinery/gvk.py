"""Names of kinds and resources, as the API conventions spell them.

Follows k8s.io/apimachinery/pkg/runtime/schema.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

_VERSION: Final = r"v(\d{1,18})(?:(alpha|beta)(\d{1,18}))?"
_STAGES: Final = {None: 0, "beta": 1, "alpha": 2}


def version_order(version: str) -> tuple[int, int, int, str]:
    """Return the sort key of a version, the most stable and newest one first: v2, v1, v2beta1, v1beta2, v1alpha1.

    Other names follow, in alphabetical order. Follows k8s.io/apimachinery pkg/version.
    """
    found = re.fullmatch(_VERSION, version, re.ASCII)
    return (3, 0, 0, version) if found is None else (_STAGES[found[2]], -int(found[1]), -int(found[3] or 0), version)


class GroupVersion(msgspec.Struct, frozen=True):
    """An API group and one of its versions; the core group is the empty string."""

    group: str
    version: str

    @classmethod
    def parse(cls, api_version: str) -> GroupVersion:
        """Read an `apiVersion`: `v1` or `apps/v1`. Raises ValueError for anything else."""
        group, slash, version = api_version.rpartition("/")
        if not version or "/" in group or (slash and not group):
            raise ValueError(f'apiVersion "{api_version}" is neither "<version>" nor "<group>/<version>"')
        return cls(group, version)

    @property
    def path(self) -> str:
        """The root of this version's URLs: `/api/v1` or `/apis/apps/v1`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class GroupVersionKind(msgspec.Struct, frozen=True):
    """The type of an object: its `apiVersion` and `kind`."""

    group: str
    version: str
    kind: str

    @classmethod
    def parse(cls, api_version: str, kind: str) -> GroupVersionKind:
        """Read an object's `apiVersion` and `kind`. Raises ValueError if the apiVersion is invalid."""
        gv = GroupVersion.parse(api_version)
        return cls(gv.group, gv.version, kind)

    @property
    def group_version(self) -> GroupVersion:
        """The group and version."""
        return GroupVersion(self.group, self.version)

    @property
    def api_version(self) -> str:
        """The `apiVersion` of objects: `v1`, `apps/v1`."""
        return str(self.group_version)

    @property
    def qualified_kind(self) -> str:
        """The kind as in error messages: `Deployment.apps`, `Pod`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def __str__(self) -> str:
        return f"{self.api_version}, Kind={self.kind}"


class GroupVersionResource(msgspec.Struct, frozen=True):
    """Where a kind is served: group, version and the plural in the URL."""

    group: str
    version: str
    resource: str

    @property
    def group_version(self) -> GroupVersion:
        """The group and version."""
        return GroupVersion(self.group, self.version)

    @property
    def qualified_resource(self) -> str:
        """The resource as in error messages: `deployments.apps`, `pods`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the URL path of the collection, of one object, or of an object's subresource."""
        parts = [self.group_version.path]
        if namespace:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.resource)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.group_version}, Resource={self.resource}"
