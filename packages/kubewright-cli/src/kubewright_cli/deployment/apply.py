"""An operator deployed: everything it needs applied in order, what it needs no more removed; and undeployed again.

Whoever does it a second time changes nothing. What is interrupted is finished by the next time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Final

from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import Namespace, Service, ServiceAccount
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.apis.networking.v1 import NetworkPolicy
from kubewright.apis.rbac.v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from kubewright.client._client import Client
from kubewright.client._dynamic import PartialObjectMetadata
from kubewright.machinery.errors import NotFound
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource
from kubewright_cli.deployment import crds
from kubewright_cli.deployment.objects import Change, Objects, called, key_of
from kubewright_cli.manifests import Settings

_MANAGED_BY: Final = "kubewright"
_SERVICE_MONITOR: Final = APIResource("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors")
_PRUNED: Final = (
    Deployment.__api__,
    Service.__api__,
    NetworkPolicy.__api__,
    _SERVICE_MONITOR,
    ClusterRoleBinding.__api__,
    RoleBinding.__api__,
    ClusterRole.__api__,
    Role.__api__,
    ServiceAccount.__api__,
)
"""Of which kinds an earlier deployment may have left something. Not CRDs: objects would be lost with them."""


def labels_of(settings: Settings) -> Mapping[str, str]:
    """By which the objects of a deployment are known."""
    return {"app.kubernetes.io/name": settings.name, "app.kubernetes.io/managed-by": _MANAGED_BY}


async def deploy(client: Client, settings: Settings, documents: Iterable[JSONObject]) -> AsyncGenerator[Change]:
    """Apply `documents` in their order, wait for the kinds among them, and remove what is of this deployment no more.

    A Namespace that was there before, and is not of a deployment, stays as it is. One that is being deleted is waited
    for. Raises APIError, ConfigError for kinds that the cluster does not have, DeadlineExceeded.
    """
    documents, objects = list(documents), Objects(client)
    await _until_free(client, settings.namespace)
    definitions = [each for each in documents if each["kind"] == "CustomResourceDefinition"]
    for document in documents:
        if document["kind"] == "Namespace" and not await _is_ours(client, settings, default=True):
            yield Change(called(Namespace.__api__, settings.namespace), "unchanged")
        elif document["kind"] != "CustomResourceDefinition":
            yield await objects.apply(document)
        elif document is definitions[0]:
            async for change in crds.install(client, definitions):
                yield change
    async for change in _prune(client, settings, {key_of(each) for each in documents}):
        yield change


async def undeploy(
    client: Client, settings: Settings, documents: Iterable[JSONObject], *, keep_crds: bool, timeout: float
) -> AsyncGenerator[Change]:
    """Take away what `deploy` brought, the other way round.

    Objects of the operator's kinds go first, while it runs and can finish them; with `keep_crds` they stay, and their
    kinds too. A Namespace that is not of the deployment stays. Ends when all is gone. Raises DeadlineExceeded.
    """
    documents, objects = list(documents), Objects(client)
    definitions = [each for each in documents if each["kind"] == "CustomResourceDefinition"]
    if not keep_crds:
        async for change in crds.delete_customs(client, definitions, timeout=timeout):
            yield change
    ours = await _is_ours(client, settings, default=False)
    for document in reversed(documents):
        if document["kind"] not in ("CustomResourceDefinition", "Namespace"):
            yield await objects.delete(document)
    async for change in _prune(client, settings, set()):
        yield change
    if not keep_crds:
        async for change in crds.uninstall(client, definitions, timeout=timeout):
            yield change
    for document in documents:
        if document["kind"] == "Namespace" and ours:
            yield await objects.delete(document)
            await client.wait_until_gone(Namespace, settings.namespace, timeout=timeout)


async def _prune(client: Client, settings: Settings, wanted: set[tuple[str, str, str, str]]) -> AsyncGenerator[Change]:
    """Remove what is labelled as of this deployment and is not `wanted`. Another namespace's is another deployment."""
    for api in _PRUNED:
        kind = PartialObjectMetadata.of(api)
        try:
            found = await client.list(kind, labels=labels_of(settings))
        except NotFound:  # the cluster has no such kind
            continue
        for each in found:
            meta = each.metadata
            key = (api.group, api.kind, meta.namespace or "", meta.name)
            if key not in wanted and _is_of(settings, api, meta):
                await client.delete(each)
                yield Change(called(api, meta.name, meta.namespace), "deleted")


def _is_of(settings: Settings, api: APIResource, meta: ObjectMeta) -> bool:
    """Whether what has the labels of a deployment is of this one. Roles may be in any namespace that is watched."""
    if meta.namespace and meta.namespace != settings.namespace and api.kind not in ("Role", "RoleBinding"):
        return False
    return meta.name.startswith(settings.name_prefix)


async def _until_free(client: Client, namespace: str) -> None:
    found = await client.get_or_none(Namespace, namespace)
    if found is not None and found.metadata.deletion_timestamp is not None:
        await client.wait_until_gone(Namespace, namespace)


async def _is_ours(client: Client, settings: Settings, *, default: bool) -> bool:
    """Whether the Namespace is of the deployment; `default` when there is none."""
    found = await client.get_or_none(Namespace, settings.namespace)
    return default if found is None else labels_of(settings).items() <= found.metadata.labels.items()
