"""Finds the kinds that a server serves, and their resources.

Reads the server's aggregated discovery once and caches it. If a kind is missing from the cache, discovery is read
again, because its CustomResourceDefinition may have just been installed.

Source: https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery (Kubernetes 1.30 and newer)
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from kubewright.client._client import Client
from kubewright.client._dynamic import Unstructured
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.models import APIResource

_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class ServedResource(msgspec.Struct, frozen=True):
    """A resource that the server serves, with its verbs."""

    api: APIResource
    verbs: frozenset[str]
    preferred: bool
    """Whether this is the version that the server prefers."""


class RESTMapper:
    """Finds resources by kind on one server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._found: dict[GroupVersionKind, ServedResource] = {}
        self._age = 0
        self._refreshing = asyncio.Lock()

    async def resource(self, api_version: str, kind: str) -> ServedResource:
        """Return the resource of a kind. Raises ConfigError if the server does not serve the kind."""
        gvk = GroupVersionKind.parse(api_version, kind)
        found = self._found.get(gvk)
        if found is None:
            await self._refresh(self._age)
            found = self._found.get(gvk)
        if found is None:
            raise ConfigError(
                f"the server has no kind {kind} in {api_version}; is its CustomResourceDefinition installed? "
                f"{self._hint(gvk)}".rstrip()
            )
        return found

    async def kind(self, api_version: str, kind: str) -> type[Unstructured]:
        """Return the class to read and write a kind by that is known only by name. Raises ConfigError as `resource`
        does.
        """
        return Unstructured.of((await self.resource(api_version, kind)).api)

    async def resources(self) -> list[ServedResource]:
        """Return the current resources of the server in every version, in the server's order."""
        await self._refresh(self._age)
        return list(self._found.values())

    async def _refresh(self, age: int) -> None:
        """Read discovery, unless another task has read it since the answer of this `age`."""
        async with self._refreshing:
            if age != self._age:
                return
            core, groups = await asyncio.gather(self._discover("/api"), self._discover("/apis"))
            self._found = {each.api.gvk: each for group in (*core, *groups) for each in group.resources()}
            self._age += 1

    async def _discover(self, path: str) -> list[_Group]:
        data = await self._client.rest.request("GET", path, accept=_AGGREGATED)
        try:
            answer = msgspec.json.decode(data, type=_GroupList)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise DecodeError(f"GET {path}: the answer is not discovery ({error}): {data[:200]!r}") from error
        if answer.kind != "APIGroupDiscoveryList":
            raise ConfigError(f"GET {path}: the server has no aggregated discovery; Kubernetes 1.30 or newer is needed")
        return answer.items

    def _hint(self, wanted: GroupVersionKind) -> str:
        versions = [gvk.api_version for gvk in self._found if (gvk.group, gvk.kind) == (wanted.group, wanted.kind)]
        return f"It is served as {', '.join(versions)}." if versions else ""


class _Kind(msgspec.Struct, gc=False):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Subresource(msgspec.Struct, gc=False):
    subresource: str = ""


class _Resource(msgspec.Struct, gc=False, rename="camel"):
    resource: str
    scope: str
    response_kind: _Kind | None = None
    singular_resource: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[_Subresource, ...] = ()


class _Version(msgspec.Struct, gc=False):
    version: str
    resources: list[_Resource] = []


class _GroupMetadata(msgspec.Struct, gc=False):
    name: str = ""


class _Group(msgspec.Struct, gc=False):
    metadata: _GroupMetadata
    versions: list[_Version] = []

    def resources(self) -> list[ServedResource]:
        """Return the resources of the group, in the server's order of preferred versions."""
        found: dict[tuple[str, str], ServedResource] = {}
        plurals: set[str] = set()
        for version in self.versions:
            for each in version.resources:
                if each.response_kind is not None:
                    served = _served(self.metadata.name, version.version, each, each.resource not in plurals)
                    found[version.version, each.resource] = served
            plurals.update(each.resource for each in version.resources)
        return list(found.values())


class _GroupList(msgspec.Struct, gc=False):
    kind: str
    items: list[_Group] = []


def _served(group: str, version: str, found: _Resource, preferred: bool) -> ServedResource:
    api = APIResource(
        group=group,
        version=version,
        kind=found.response_kind.kind if found.response_kind else "",
        plural=found.resource,
        singular=found.singular_resource,
        namespaced=found.scope == "Namespaced",
        short_names=found.short_names,
        categories=found.categories,
        subresources=tuple(each.subresource for each in found.subresources),
    )
    return ServedResource(api, frozenset(found.verbs), preferred)
