"""The resources that a server serves now. CustomResourceDefinitions add to it and take away while it runs.

Discovery and OpenAPI are views of it; `generation` tells them when to look again.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubewright._runtime.clock import Clock
from kubewright.machinery.gvk import GroupVersionResource
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry.model import Admission, Resource
from kubewright_controlplane.apiserver.registry.objects import decode_json, from_stored, to_stored
from kubewright_controlplane.apiserver.registry.registry import Registry
from kubewright_controlplane.apiserver.storage.events import Observer
from kubewright_controlplane.apiserver.storage.store import Store


class ResourceSet:
    """What is served, found by name. Also the door through which the server's own parts read and write objects.

    `admission` is every registry's chain; it may be filled after the first resources are installed.
    """

    def __init__(self, store: Store, admission: Admission, clock: Clock) -> None:
        self.generation = 0
        """Rises whenever a resource is installed or removed."""
        self.store = store
        self._admission = admission
        self._clock = clock
        self._registries: dict[GroupVersionResource, Registry] = {}
        self._stored_as: dict[str, Registry] = {}

    def install(self, resource: Resource) -> Registry:
        """Serve `resource`, in place of what was served under the same group, version and plural.

        Of several versions of a resource, the one that is stored as it is (`from_storage` is None) is what `registry`
        gives. Custom resources that are stored already are brought under the new schema: pruned and defaulted, at
        the resource version that they have.
        """
        registry = Registry(resource, self.store, self._admission, self._clock)
        self._registries[resource.gvr] = registry
        if resource.from_storage is None or resource.qualified not in self._stored_as:
            self._stored_as[resource.qualified] = registry
        if resource.custom and resource.from_storage is None and self.store.count(resource.storage):
            self.store.rewrite(resource.storage, lambda data: _conformed(resource, data))
        self.generation += 1
        return registry

    def remove(self, group: str, version: str, plural: str) -> None:
        """Stop serving it: requests get 404 and its watches end. Stored objects stay."""
        gone = self._registries.pop(GroupVersionResource(group, version, plural), None)
        if gone is None:
            return
        resource = gone.resource
        if self._stored_as.get(resource.qualified) is gone:
            del self._stored_as[resource.qualified]
            for other in self._registries.values():
                if other.resource.qualified == resource.qualified:
                    self._stored_as.setdefault(resource.qualified, other)
        self.store.end_watches(resource.storage)
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> Registry | None:
        """The registry of one version of a resource."""
        return self._registries.get(GroupVersionResource(group, version, plural))

    def registry(self, qualified: str) -> Registry:
        """The registry of a resource in its storage version: `pods`, `deployments.apps`. Raises KeyError."""
        return self._stored_as[qualified]

    def has_group(self, group: str) -> bool:
        """Whether any resource of the group is served."""
        return any(gvr.group == group for gvr in self._registries)

    def __iter__(self) -> Iterator[Resource]:
        """All resources, in the order in which they were installed."""
        return (registry.resource for registry in self._registries.values())

    def observe(self, qualified: str, observer: Observer) -> None:
        """Call `observer` for each object that is stored under the name now (as ADDED), then after each commit.

        Works for names that are not served yet. An observer runs after the commit is complete and watchers have been
        told; what it writes comes as commits of its own.
        """
        self.store.observe(qualified, observer)

    def decode(self, data: bytes) -> JSONObject:
        """An entry's bytes as a document of the caller's own."""
        return decode_json(data)


def _conformed(resource: Resource, data: bytes) -> bytes:
    obj = from_stored(resource, data)
    resource.schema.prune(obj)
    resource.schema.default(obj)
    return to_stored(resource, obj)
