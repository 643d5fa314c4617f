"""The URLs of a kind, and references to an object."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from kubewright.client._dynamic import PartialObjectMetadata
from kubewright.client._rest import JSON
from kubewright.machinery.errors import ConfigError
from kubewright.models import Object

if TYPE_CHECKING:
    from kubewright.apis.core.v1 import ObjectReference

_AS_METADATA: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_AS_METADATA_LIST: Final = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

_needs_no_quoting: Final = re.compile(r"[A-Za-z0-9._~-]+").fullmatch
"""Matches nearly every name. This check costs a fifth of quoting."""

_MANY: Final = 1024
"""The maximum number of cached paths of namespaces."""


class Endpoint:
    """The URLs of one kind, created once per kind and client.

    Raises ConfigError for a namespaced object without a namespace, and for a cluster-scoped object with a namespace.
    """

    __slots__ = ("_places", "_plural", "_root", "accept", "accept_list", "api", "resource")

    def __init__(self, kind: type[Object]) -> None:
        self.api = kind.__api__
        self.resource: str = self.api.gvr.qualified_resource
        """The name in RBAC and messages: `deployments.apps`."""
        metadata_only = issubclass(kind, PartialObjectMetadata)
        self.accept = _AS_METADATA if metadata_only else JSON
        self.accept_list = _AS_METADATA_LIST if metadata_only else JSON
        self._root = self.api.group_version.path
        self._plural = self.api.plural
        self._places: dict[str | None, str] = {}

    def collection(self, namespace: str | None) -> str:
        """Return the path of the objects in one namespace, or in all namespaces for None."""
        if not namespace:
            return f"{self._root}/{self._plural}"
        if not self.api.namespaced:
            raise ConfigError(f"{self.api.kind} is cluster-scoped: leave out namespace= ({namespace!r} was given)")
        return f"{self._root}/namespaces/{quote(namespace, safe='')}/{self._plural}"

    def place(self, namespace: str | None) -> str:
        """Return the path to create an object at: `collection`, but a namespaced kind requires a namespace."""
        place = self._places.get(namespace)
        if place is None:
            if self.api.namespaced and not namespace:
                raise ConfigError(f"{self.api.kind} is namespaced: give namespace=")
            if len(self._places) >= _MANY:
                self._places.clear()
            place = self._places[namespace] = self.collection(namespace)
        return place

    def check(self, name: str, namespace: str | None) -> None:
        """Raise ConfigError unless `item` has a path for this name and namespace."""
        if not name:
            raise ConfigError(f"{self.api.kind}: a name is required")
        if namespace not in self._places:
            self.place(namespace)

    def item(self, name: str, namespace: str | None, subresource: str | None = None) -> str:
        """Return the path of one object, or of a subresource of it."""
        if not name:
            raise ConfigError(f"{self.api.kind}: a name is required")
        place = self._places.get(namespace) or self.place(namespace)
        path = f"{place}/{name if _needs_no_quoting(name) else quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


def reference_to(obj: Object) -> ObjectReference:
    """Return a reference to `obj` with its uid and resource version.

    Follows client-go's tools/reference.
    """
    from kubewright.apis.core.v1 import ObjectReference  # loads all of core/v1

    meta = obj.metadata
    return ObjectReference(
        api_version=obj.api_version,
        kind=obj.kind,
        namespace=meta.namespace or None,
        name=meta.name,
        uid=meta.uid or None,
        resource_version=meta.resource_version or None,
    )
