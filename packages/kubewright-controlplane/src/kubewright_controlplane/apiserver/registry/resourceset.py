"""The resources that a server serves now. CustomResourceDefinitions add and remove resources while it runs.

Discovery and OpenAPI are derived from it, and rebuilt when its `generation` changes.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubewright._runtime.clock import Clock
from kubewright.machinery.gvk import GroupVersionKind, GroupVersionResource
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry.model import Admission, Resource
from kubewright_controlplane.apiserver.registry.objects import decode_json
from kubewright_controlplane.apiserver.registry.registry import Registry
from kubewright_controlplane.apiserver.storage.events import Observer
from kubewright_controlplane.apiserver.storage.store import Store


class ResourceSet:
    """The served resources, by name. The server's own parts read and write objects through it.

    `admission` is used by every registry. Its plugins may be added after the first resources are installed.

    Resources are installed and removed by the event loop. Any thread may look them up.
    """

    def __init__(self, store: Store, admission: Admission, clock: Clock) -> None:
        self.generation = 0
        """Rises whenever a resource is installed or removed."""
        self.store = store
        self._admission = admission
        self._clock = clock
        self._registries: dict[GroupVersionResource, Registry] = {}
        self._stored_as: dict[str, Registry] = {}
        self._by_kind: dict[GroupVersionKind, Resource] = {}
        self._indexed = 0
        """The generation that the index by kind is of."""

    def install(self, resource: Resource) -> Registry:
        """Serve `resource`, replacing a resource of the same group, version and plural, whose watches end.

        Of several versions of a resource, `registry` returns the storage version.
        """
        registry = Registry(resource, self.store, self._admission, self._clock)
        if resource.gvr in self._registries:
            self.store.end_watches(resource.storage)
        self._registries[resource.gvr] = registry
        if resource.is_storage_version or resource.qualified not in self._stored_as:
            self._stored_as[resource.qualified] = registry
        self.generation += 1
        return registry

    def remove(self, group: str, version: str, plural: str) -> None:
        """Stop serving a resource: requests get 404 and its watches end. Stored objects remain."""
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
        """Return the registry of one version of a resource; None if it is not served."""
        return self._registries.get(GroupVersionResource(group, version, plural))

    def of_kind(self, kind: GroupVersionKind) -> Resource | None:
        """Return the resource of a kind; None if it is not served."""
        generation = self.generation
        if self._indexed != generation:
            self._by_kind = {resource.gvk: resource for resource in self}
            self._indexed = generation
        return self._by_kind.get(kind)

    def registry(self, qualified: str) -> Registry:
        """Return the registry of a resource in its storage version: `pods`, `deployments.apps`. Raises KeyError."""
        return self._stored_as[qualified]

    def unserved(self, resource: Resource) -> Registry:
        """Return a registry for the stored objects of a resource, without serving it."""
        return Registry(resource, self.store, self._admission, self._clock)

    def has_group(self, group: str) -> bool:
        """Return whether any resource of the group is served."""
        return any(gvr.group == group for gvr in tuple(self._registries))

    def __iter__(self) -> Iterator[Resource]:
        """Iterate over all resources in the order of their installation."""
        return (registry.resource for registry in tuple(self._registries.values()))

    def observe(self, qualified: str, observer: Observer) -> None:
        """Call `observer` for each object that is stored under the name now (as ADDED), then after each commit.

        The name need not be served yet. An observer runs when the commit is complete and watchers are notified. Its
        own writes are separate commits.
        """
        self.store.observe(qualified, observer)

    def decode(self, data: bytes) -> JSONObject:
        """Decode the bytes of an entry. The caller may change the document."""
        return decode_json(data)
