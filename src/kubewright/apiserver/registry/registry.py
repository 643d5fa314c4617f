"""Every verb on one resource. Writes are synchronous: nothing happens between their read and their commit.

Follows k8s.io/apiserver/pkg/registry/generic/registry.Store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kubewright.apiserver.registry.options import DeleteOptions, WriteOptions
from kubewright.apiserver.storage.events import Entry
from kubewright.machinery.json import JSONObject

if TYPE_CHECKING:
    from kubewright.apiserver.registry.resource import Resource


class Registry:
    """One resource's objects. Documents that go in belong to the registry afterwards; those that come out, to the caller."""

    resource: Resource

    def read(self, name: str, namespace: str = "") -> JSONObject | None:
        """The object, decoded afresh in this registry's version; None where there is none."""
        raise NotImplementedError

    def read_all(self, namespace: str = "") -> Iterator[JSONObject]:
        """All objects, or those of one namespace, by namespace and name."""
        raise NotImplementedError

    def create(self, obj: JSONObject, namespace: str = "", options: WriteOptions | None = None) -> JSONObject:
        """Store a new object through the whole of defaulting, admission and validation; gives what was stored.

        Raises AlreadyExists, Invalid, Forbidden, BadRequest.
        """
        raise NotImplementedError

    def modify(
        self,
        name: str,
        change: Callable[[JSONObject], None],
        namespace: str = "",
        subresource: str = "",
        options: WriteOptions | None = None,
    ) -> JSONObject:
        """Change an object in place by a function, as an update of it or of its `status`. Raises NotFound, Invalid."""
        raise NotImplementedError

    def delete(self, name: str, namespace: str = "", options: DeleteOptions | None = None) -> JSONObject:
        """Delete, or mark as being deleted. Raises NotFound, Conflict for preconditions."""
        raise NotImplementedError

    def entries(self, namespace: str = "") -> list[Entry]:
        """The stored entries, without decoding."""
        raise NotImplementedError
