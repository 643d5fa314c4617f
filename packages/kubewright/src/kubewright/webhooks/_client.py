"""The client of a webhook: it reads from the manager's cache where the manager has one, and otherwise from the server.

A reconcile can wait for the first list of a kind; a review cannot. So a kind is cached if a controller or a webhook
declares it, and a read of any other kind starts no cache. An API server also sends reviews of namespaces in which the
manager does not work, and which its cache does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kubewright.cache._cache import Cache
from kubewright.cache._client import CachedClient, RecordOwnWrites
from kubewright.cache._store import EVERYWHERE
from kubewright.client._client import Client
from kubewright.client._lists import Fields, Labels, ObjectList
from kubewright.client._write import RESTWriter
from kubewright.controllers._rbac import Undeclared
from kubewright.controllers._writers import ReportUndeclared
from kubewright.machinery.errors import ConfigError
from kubewright.models import Object
from kubewright.models._rbac import PolicyRule

T = TypeVar("T", bound=Object)


class WebhookClient(CachedClient):
    """A `CachedClient` that reads what no cache has from the API server."""

    async def get(self, kind: type[T], name: str, *, namespace: str | None = None) -> T:
        """Return the object of that name. Raises NotFound."""
        if self._is_cached(kind, namespace):
            return await super().get(kind, name, namespace=namespace)
        return await self.uncached.get(kind, name, namespace=namespace)

    async def list(
        self,
        kind: type[T],
        *,
        namespace: str | None = None,
        labels: Labels = None,
        fields: Fields = None,
        page_size: int = 500,
        owner: str | None = None,
        index: tuple[str, str] | None = None,
    ) -> ObjectList[T]:
        """Return the objects that match all arguments. Raises ConfigError for `owner` or `index` without a cache."""
        if self._is_cached(kind, namespace):
            return await super().list(
                kind,
                namespace=namespace,
                labels=labels,
                fields=fields,
                page_size=page_size,
                owner=owner,
                index=index,
            )
        if owner is not None or index is not None:
            raise ConfigError(
                f"{kind.__api__.kind}: a list by owner or index needs a cache of the kind and the namespace; declare "
                f"it: cached=[{kind.__name__}]"
            )
        return await self.uncached.list(kind, namespace=namespace, labels=labels, fields=fields)

    def _is_cached(self, kind: type[Object], namespace: str | None) -> bool:
        informer = self.cache.informer_or_none(kind)
        if informer is None:
            return False
        return informer.namespaces == EVERYWHERE or not namespace or namespace in informer.namespaces


def webhook_client(
    client: Client, cache: Cache, rules: Sequence[PolicyRule], report: Callable[[str], None]
) -> WebhookClient:
    """Return the client of one webhook. `report` is called once for each resource that it writes without a rule."""
    recorded = RecordOwnWrites(RESTWriter(client.rest).write, cache)
    writer = ReportUndeclared(recorded.write, Undeclared(rules, lambda kind, resource, is_written: report(resource)))
    return WebhookClient(client, cache, writer=writer.write)
