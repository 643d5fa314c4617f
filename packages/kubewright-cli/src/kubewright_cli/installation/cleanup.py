"""Remove what a bundle has installed, and nothing else.

A second run finds nothing. A run after an interruption finishes the work.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from kubewright.apis.core.v1 import Namespace
from kubewright.client import Client, PartialObjectMetadata, RESTMapper
from kubewright.machinery.errors import APIError
from kubewright.machinery.json import JSONObject
from kubewright_cli.deployment import conversions, crds
from kubewright_cli.deployment.apply import stop_broken, store_in_one_version
from kubewright_cli.deployment.objects import Change, Objects, called
from kubewright_cli.installation.inventory import Entry, Installation, definition_of, owner_of
from kubewright_cli.olm.validation.document import CRD

_ADMISSION: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
"""Deleted first: the API server rejects writes while it calls webhooks that do not run."""
_IN_EVERY_NAMESPACE: Final = (("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt"))
_IGNORED: Final = frozenset(
    {"ControllerRevision", "Endpoints", "EndpointSlice", "Event", "Lease", "Pod", "PodMetrics", "ReplicaSet"}
)
"""Kinds whose objects do not keep a namespace: what made them is deleted."""
_SHOWN: Final = 5


async def own_definitions(client: Client, installation: Installation) -> list[JSONObject]:
    """Return the CRDs of an installation, as they are in the cluster."""
    entries = await _own(Objects(client), installation, [each for each in installation.entries if each.kind == CRD])
    found = [await definition_of(client, each) for each in entries]
    return [each for each in found if each is not None]


async def cleanup_bundle(
    client: Client,
    installation: Installation,
    *,
    keep_crds: bool,
    timeout: float,
    warn: Callable[[str], None] = lambda _: None,
) -> AsyncGenerator[Change]:
    """Delete the objects of an installation, in reverse order, and wait until they are gone.

    Objects of its kinds are deleted first, while the operator runs and can finalize them. With `keep_crds` they remain
    with their CRDs, stored in the storage version, because nothing converts them afterwards. Objects that belong to
    someone else by now remain, and a namespace that has other objects. Raises DeadlineExceeded.
    """
    objects, inventory = Objects(client), installation.inventory
    definitions = await own_definitions(client, installation)
    if inventory is not None:
        inventory.state = "removing"
        await inventory.write(client)
    entries = await _own(objects, installation, [each for each in installation.entries if each.kind != CRD], warn)
    admission = [each.document for each in entries if each.kind in _ADMISSION]
    async for change in objects.delete_all(admission, timeout=timeout):
        yield change
    async for change in stop_broken(client, definitions, installation.namespace):
        yield change
    customs = (
        store_in_one_version(client, definitions)
        if keep_crds
        else crds.delete_customs(client, definitions, timeout=timeout)
    )
    async for change in customs:
        yield change
    async for change in conversions.stop(client, definitions, installation.namespace):
        yield change
    others = [each.document for each in reversed(entries) if each.kind not in _ADMISSION]
    async for change in objects.delete_all(others, timeout=timeout):
        yield change
    if not keep_crds:
        async for change in crds.uninstall(client, definitions, timeout=timeout):
            yield change
    if inventory is not None:
        await inventory.delete(client)
    if installation.made_namespace:
        async for change in _delete_namespace(objects, installation.namespace, timeout, warn):
            yield change


async def _own(
    objects: Objects, installation: Installation, entries: Sequence[Entry], warn: Callable[[str], None] = lambda _: None
) -> list[Entry]:
    """Return the objects that exist and belong to the installation. Warns of those that belong to others by now."""
    found: list[Entry] = []
    for each in entries:
        owner = await owner_of(objects, each)
        if owner == installation.owner:
            found.append(each)
        elif owner is not None:
            warn(f"{each.kind} {each.name} remains: it lost the annotation of {installation.owner}")
    return found


async def _delete_namespace(
    objects: Objects, namespace: str, timeout: float, warn: Callable[[str], None]
) -> AsyncGenerator[Change]:
    """Delete the namespace that the installation made, unless it has other objects."""
    left = await _objects_in(objects.client, namespace)
    if left:
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        warn(f"namespace {namespace} remains, because it has other objects: {', '.join(left[:_SHOWN])}{more}")
        return
    document = {"apiVersion": "v1", "kind": Namespace.__api__.kind, "metadata": {"name": namespace}}
    async for change in objects.delete_all([document], timeout=timeout):
        yield change


async def _objects_in(client: Client, namespace: str) -> list[str]:
    """Return the objects in a namespace that neither every namespace has, nor a controller makes."""
    found: dict[str, None] = {}
    for each in await RESTMapper(client).resources():
        if not each.api.namespaced or each.api.kind in _IGNORED or "list" not in each.verbs:
            continue
        try:
            listed = await client.list(PartialObjectMetadata.of(each.api), namespace=namespace)
        except APIError:  # an aggregated API that does not answer
            continue
        for one in listed:
            if (each.api.kind, one.metadata.name) not in _IN_EVERY_NAMESPACE:
                found[called(each.api, one.metadata.name)] = None
    return list(found)
