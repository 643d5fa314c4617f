"""The project's CRDs in a cluster: install them and wait until they are served, remove them with all their objects.

The cluster may serve other versions of a kind than the program has. Objects are therefore listed and deleted through a
version that the cluster serves.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.client._client import Client
from kubewright.client._crds import is_established as is_established
from kubewright.client._crds import until_established
from kubewright.client._dynamic import PartialObjectMetadata
from kubewright.machinery.errors import ConfigError, DeadlineExceeded, NotFound
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource
from kubewright_cli.deployment.objects import Change, Objects, called


@dataclass(frozen=True, slots=True)
class Custom:
    """An object of one of the project's kinds."""

    api: APIResource
    name: str
    namespace: str | None
    finalizers: tuple[str, ...]

    def __str__(self) -> str:
        return called(self.api, self.name, self.namespace)


async def install(client: Client, crds: Iterable[JSONObject]) -> AsyncGenerator[Change]:
    """Apply CustomResourceDefinitions, and wait until they are served: see `until_established`."""
    objects, crds = Objects(client), list(crds)
    for crd in crds:
        yield await objects.apply(crd)
    for crd in crds:
        await until_established(client, crd["metadata"]["name"])


async def uninstall(client: Client, crds: Iterable[JSONObject], *, timeout: float) -> AsyncGenerator[Change]:
    """Delete the CRDs and every object of their kinds. Ends when the CRDs are gone.

    Raises DeadlineExceeded, which names the objects whose finalizers block the deletion.
    """
    objects, crds = Objects(client), list(crds)
    names: list[str] = []
    for crd in crds:
        change = await objects.delete(crd)
        yield change
        if change.outcome == "deleted":
            names.append(crd["metadata"]["name"])
    for name in names:
        try:
            await client.wait_until_gone(CustomResourceDefinition, name, timeout=timeout)
        except DeadlineExceeded:
            crd = next(each for each in crds if each["metadata"]["name"] == name)
            raise held_up(await customs(client, [crd]), timeout) from None


async def customs(client: Client, crds: Iterable[JSONObject]) -> list[Custom]:
    """Return all objects of the kinds, in any version.

    Raises ConfigError for an installed CRD that serves no version: its objects cannot be listed.
    """
    found: list[Custom] = []
    for crd in crds:
        installed = await installed_crd(client, crd)
        api = None if installed is None else served_api(crd, installed)
        if api is None:
            continue
        try:
            listed = await client.list(PartialObjectMetadata.of(api))
        except NotFound:  # the CRD was deleted a moment ago
            continue
        metas = [each.metadata for each in listed]
        found += [Custom(api, each.name, each.namespace, tuple(each.finalizers)) for each in metas]
    return found


async def installed_crd(client: Client, crd: JSONObject) -> CustomResourceDefinition | None:
    """Return the CRD of that name in the cluster; None if it is not installed."""
    return await client.get_or_none(CustomResourceDefinition, crd["metadata"]["name"])


def served_versions(installed: CustomResourceDefinition) -> list[str]:
    """Return the versions that the cluster serves."""
    return [each.name for each in installed.spec.versions if each.served]


def served_api(crd: JSONObject, installed: CustomResourceDefinition) -> APIResource:
    """Return the resource in a version that the cluster serves: the program's storage version if possible.

    Raises ConfigError if the cluster serves no version.
    """
    served = served_versions(installed)
    if not served:
        raise ConfigError(
            f"CustomResourceDefinition {installed.metadata.name} serves no version, so its objects cannot be listed; "
            "run `kubewright install`, or set served: true for a version, and try again"
        )
    own = api_of(crd)
    stored = next((each.name for each in installed.spec.versions if each.storage), "")
    version = next((each for each in (own.version, stored) if each in served), served[0])
    return APIResource(own.group, version, own.kind, own.plural, own.singular, namespaced=own.namespaced)


async def delete_customs(client: Client, crds: Iterable[JSONObject], *, timeout: float) -> AsyncGenerator[Change]:
    """Delete all objects of the kinds while their operator runs. Ends when the operator has finalized them.

    Raises DeadlineExceeded, which names the objects that remain and their finalizers.
    """
    crds = list(crds)
    doomed = await customs(client, crds)
    for each in doomed:
        try:
            await client.delete(PartialObjectMetadata.of(each.api), each.name, namespace=each.namespace)
        except NotFound:
            continue
        yield Change(str(each), "deleted")
    try:
        for each in doomed:
            kind = PartialObjectMetadata.of(each.api)
            await client.wait_until_gone(kind, each.name, namespace=each.namespace, timeout=timeout)
    except DeadlineExceeded:
        raise held_up(await customs(client, crds), timeout) from None


def held_up(left: Iterable[Custom], timeout: float) -> DeadlineExceeded:
    """Return the error that names the objects that remain."""
    shown = "; ".join(f"{each}, held by {', '.join(each.finalizers) or 'nothing'}" for each in left)
    return DeadlineExceeded(
        f"after {timeout:g} s these objects remained: {shown}. Does the operator run and finalize deleted objects? "
        "See `kubewright logs`; if it no longer can, remove the finalizers (kubectl edit)"
    )


def api_of(crd: JSONObject) -> APIResource:
    """Return the resource that a CRD defines, in its storage version."""
    spec = crd["spec"]
    names, version = spec["names"], next(each["name"] for each in spec["versions"] if each["storage"])
    singular = names.get("singular") or names["kind"].lower()
    namespaced = spec["scope"] == "Namespaced"
    return APIResource(spec["group"], version, names["kind"], names["plural"], singular, namespaced=namespaced)
