"""The resources that a server serves now. CustomResourceDefinitions add to it and take away while it runs.

Discovery and OpenAPI are views of it; `generation` tells them when to look again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kubewright.apiserver.storage.events import Observer

if TYPE_CHECKING:
    from kubewright.apiserver.registry.registry import Registry
    from kubewright.apiserver.registry.resource import Resource
    from kubewright.machinery.json import JSONObject


class ResourceSet:
    """What is served, found by name. Also the door through which the server's own parts read and write objects."""

    generation: int
    """Rises whenever a resource is installed or removed."""

    def install(self, resource: Resource) -> Registry:
        """Serve `resource`, in place of what was served under the same group, version and plural."""
        raise NotImplementedError

    def remove(self, group: str, version: str, plural: str) -> None:
        """Stop serving it: requests get 404 and its watches end. Stored objects stay; see `Registry.delete_collection`."""
        raise NotImplementedError

    def find(self, group: str, version: str, plural: str) -> Registry | None:
        """The registry of one version of a resource."""
        raise NotImplementedError

    def registry(self, qualified: str) -> Registry:
        """The registry of a resource in its storage version: `pods`, `deployments.apps`. Raises KeyError."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Resource]:
        """All resources, in the order in which discovery shows them."""
        raise NotImplementedError

    def observe(self, qualified: str, observer: Observer) -> None:
        """Call `observer` for each object that is stored under the name now (as ADDED), then after each commit.

        Works for names that are not served yet. An observer runs after the commit is complete and watchers have been
        told; what it writes comes as commits of its own.
        """
        raise NotImplementedError

    def decode(self, data: bytes) -> JSONObject:
        """An entry's bytes as a document of the caller's own."""
        raise NotImplementedError
