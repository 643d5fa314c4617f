"""Deploy an operator: apply everything it needs in order, delete what it no longer needs. Undeploy it again.

A second run changes nothing. A run after an interruption finishes the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable
from typing import Final

from kubewright.apis.admissionregistration.v1 import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    MutatingWebhookConfiguration,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
)
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import Namespace, Pod, Service, ServiceAccount
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.apis.networking.v1 import NetworkPolicy
from kubewright.apis.rbac.v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from kubewright.client import Client, PartialObjectMetadata
from kubewright.machinery.errors import APIError, ConfigError, NotFound
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource
from kubewright_cli.deployment import conversions, crds, migration
from kubewright_cli.deployment.objects import Change, Objects, called, delete, delete_all, key_of
from kubewright_cli.deployment.policies import UPGRADE
from kubewright_cli.manifests import Manifests, Settings, policies
from kubewright_cli.manifests.webhooks import CERTIFICATE, ISSUER
from kubewright_cli.manifests.workload import own_labels, selector

_SERVICE_MONITOR: Final = APIResource("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors")
_ADMISSION: Final = (
    MutatingWebhookConfiguration.__api__,
    ValidatingWebhookConfiguration.__api__,
    MutatingAdmissionPolicyBinding.__api__,
    ValidatingAdmissionPolicyBinding.__api__,
    MutatingAdmissionPolicy.__api__,
    ValidatingAdmissionPolicy.__api__,
)
"""Deleted first: the API server rejects writes while it calls webhooks that do not run, and policies may reject any."""
_CERT_MANAGER: Final = "install cert-manager, or change webhook-certificate in [tool.kubewright]"
_WAYS_OUT: Final = {
    **dict.fromkeys(policies.KINDS, UPGRADE),
    **dict.fromkeys((CERTIFICATE.kind, ISSUER.kind), _CERT_MANAGER),
    _SERVICE_MONITOR.kind: "install the Prometheus operator, or remove prometheus = true in [tool.kubewright]",
}
"""What to do about a kind that the cluster does not serve."""
_ENFORCED_WITHIN: Final = 10.0
"""Seconds for an API server to notice that a policy is deleted."""
_RETRIED_EACH: Final = 0.2
_PRUNED: Final = (
    *_ADMISSION,
    Deployment.__api__,
    Service.__api__,
    NetworkPolicy.__api__,
    _SERVICE_MONITOR,
    ClusterRoleBinding.__api__,
    RoleBinding.__api__,
    ClusterRole.__api__,
    Role.__api__,
    ServiceAccount.__api__,
    CERTIFICATE,
    ISSUER,
)
"""The kinds that are pruned. CRDs are not: their objects would be lost."""


async def deploy(
    client: Client, settings: Settings, documents: Iterable[JSONObject], *, doomed: Iterable[str] = ()
) -> AsyncGenerator[Change]:
    """Apply `documents` in their order, wait until their CRDs are served, and prune the deployment.

    The deletion of pruned objects is requested, and not waited for.
    CRDs in `doomed` are being deleted, and are not applied: see `crds.replace_terminating`.
    A Namespace that exists without the deployment's labels is not changed. If it is being deleted, waits until it is
    gone. Raises APIError, DeadlineExceeded, and before anything is changed, ConfigError for kinds that the cluster does
    not serve.
    """
    documents, objects = list(documents), Objects(client)
    await _require_served(objects, documents)
    await until_free(client, settings.namespace)
    doomed = set(doomed)
    definitions = [
        each
        for each in documents
        if each["kind"] == "CustomResourceDefinition" and each["metadata"]["name"] not in doomed
    ]
    for document in documents:
        if document["kind"] == "Namespace" and not await _is_ours(client, settings, default=True):
            yield Change(called(Namespace.__api__, settings.namespace), "unchanged")
        elif document["kind"] != "CustomResourceDefinition":
            yield await objects.apply(document)
        elif definitions and document is definitions[0]:
            async for change in crds.install(client, definitions, namespace=settings.namespace):
                yield change
    async for each in _surplus(client, settings, {key_of(each) for each in documents}):
        yield await delete(client, each)


async def _require_served(objects: Objects, documents: Iterable[JSONObject]) -> None:
    """Raise ConfigError for a kind that the cluster does not serve."""
    for document in documents:
        try:
            await objects.kind(document)
        except ConfigError as error:
            way_out = _WAYS_OUT.get(document["kind"], "install what provides this kind")
            raise ConfigError(f"{error} Nothing was changed; {way_out}") from None


async def undeploy(client: Client, manifests: Manifests, *, keep_crds: bool, timeout: float) -> AsyncGenerator[Change]:
    """Delete what `deploy` applied, in reverse order.

    Deletes webhook configurations and policies first, so that no write is rejected. Then deletes the objects of the
    operator's kinds, while the manager runs and can convert and finalize them. With `keep_crds` the objects and the
    CRDs remain: the objects are stored in the storage version, because nothing converts them afterwards. A Namespace
    without the deployment's labels remains. Ends when everything is gone.

    Raises DeadlineExceeded; the manager is not deleted then if objects remain.
    """
    settings, documents, objects = manifests.settings, manifests.objects(), Objects(client)
    definitions = [each for each in documents if each["kind"] == "CustomResourceDefinition"]
    admission = [each async for each in _surplus(client, settings, set(), among=_ADMISSION)]
    async for change in delete_all(client, admission, timeout=timeout):
        yield change
    async for change in stop_broken(client, definitions, settings.namespace):
        yield change
    remaining = (
        _keep_readable(client, manifests, definitions, timeout=timeout)
        if keep_crds
        else _delete_customs(client, definitions, {each.metadata.name for each in admission}, timeout)
    )
    async for change in remaining:
        yield change
    async for change in conversions.stop(client, definitions, settings.namespace):
        yield change
    ours = await _is_ours(client, settings, default=False)
    own = [each for each in reversed(documents) if each["kind"] not in ("CustomResourceDefinition", "Namespace")]
    async for change in objects.delete_all(own, timeout=timeout):
        yield change
    surplus = [each async for each in _surplus(client, settings, set())]
    async for change in delete_all(client, surplus, timeout=timeout):
        yield change
    if not keep_crds:
        async for change in crds.uninstall(client, definitions, timeout=timeout):
            yield change
    namespaces = [each for each in documents if each["kind"] == "Namespace" and ours]
    async for change in objects.delete_all(namespaces, timeout=timeout):
        yield change


async def stop_broken(client: Client, definitions: list[JSONObject], namespace: str) -> AsyncGenerator[Change]:
    """End the conversions that fail, because they would block everything else."""
    broken = await crds.unconvertible(client, definitions)
    stopped = [each for each in definitions if each["metadata"]["name"] in broken]
    async for change in conversions.stop(client, stopped, namespace):
        yield change


async def _keep_readable(
    client: Client, manifests: Manifests, definitions: list[JSONObject], *, timeout: float
) -> AsyncGenerator[Change]:
    """Prepare objects that remain for the end of their conversion.

    Stores them in the storage version. If the manager reads another one, it is deleted first: without the conversion it
    would see objects without the fields of its version, and act on that.
    """
    async for change in store_in_one_version(client, definitions):
        yield change
    if all(manifests.program.reads_stored_version(each) for each in definitions):
        return
    deployments = [each for each in manifests.objects() if each["kind"] == "Deployment"]
    pods = await client.list(Pod, namespace=manifests.settings.namespace, labels=selector(manifests.settings))
    async for change in Objects(client).delete_all(deployments, timeout=timeout):
        yield change
    for each in pods:
        await client.wait_until_gone(
            Pod, each.metadata.name, namespace=each.metadata.namespace, uid=each.metadata.uid, timeout=timeout
        )


async def _delete_customs(
    client: Client, definitions: Iterable[JSONObject], deleted: Collection[str], timeout: float
) -> AsyncGenerator[Change]:
    """Delete the objects of the operator's kinds. An API server enforces `deleted` policies for about a second more."""
    definitions, loop = list(definitions), asyncio.get_running_loop()
    until = loop.time() + _ENFORCED_WITHIN
    while True:
        try:
            async for change in crds.delete_customs(client, definitions, timeout=timeout):
                yield change
        except APIError as error:
            if loop.time() > until or not any(f"'{name}'" in str(error) for name in deleted):
                raise
        else:
            return
        await asyncio.sleep(_RETRIED_EACH)


async def store_in_one_version(client: Client, definitions: Iterable[JSONObject]) -> AsyncGenerator[Change]:
    """Migrate the objects that an operator converts. Raises ConfigError if the API server refuses writes."""
    for crd in definitions:
        if not await conversions.is_converted(client, crd):
            continue
        try:
            planned = await migration.plan(client, crd)
        except ConfigError:  # the CRD in the cluster is another one, so its objects stay as they are
            continue
        if planned.old_versions:
            await migration.migrate(client, planned, lambda _: None)
            yield Change(called(planned.crd.__api__, planned.name), "migrated")


async def _surplus(
    client: Client,
    settings: Settings,
    wanted: set[tuple[str, str, str, str]],
    *,
    among: Iterable[APIResource] = _PRUNED,
) -> AsyncGenerator[PartialObjectMetadata]:
    """Yield the objects with the labels of this deployment that are not `wanted`."""
    for api in among:
        kind = PartialObjectMetadata.of(api)
        try:
            found = await client.list(kind, labels=own_labels(settings))
        except NotFound:  # the cluster does not serve this kind
            continue
        for each in found:
            meta = each.metadata
            key = (api.group, api.kind, meta.namespace or "", meta.name)
            if key not in wanted and is_of_deployment(settings, api, meta):
                yield each


def is_of_deployment(settings: Settings, api: APIResource, meta: ObjectMeta) -> bool:
    """Return whether an object belongs to this deployment, and not to another one of the same project.

    Roles may be in any watched namespace.
    """
    if meta.namespace and meta.namespace != settings.namespace and api.kind not in ("Role", "RoleBinding"):
        return False
    return meta.name.startswith(settings.name_prefix) and own_labels(settings).items() <= meta.labels.items()


async def until_free(client: Client, namespace: str) -> None:
    """Wait until a namespace that is being deleted is gone."""
    found = await client.get_or_none(Namespace, namespace)
    if found is not None and found.metadata.deletion_timestamp is not None:
        await client.wait_until_gone(Namespace, namespace)


async def _is_ours(client: Client, settings: Settings, *, default: bool) -> bool:
    """Return whether the Namespace belongs to the deployment; `default` if it does not exist."""
    found = await client.get_or_none(Namespace, settings.namespace)
    return default if found is None else own_labels(settings).items() <= found.metadata.labels.items()
