"""The kinds of a project in a cluster: installed and waited for, removed with all their objects."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.client._client import Client
from kubewright.client._crds import is_established as is_established
from kubewright.client._crds import until_established
from kubewright.client._dynamic import PartialObjectMetadata
from kubewright.machinery.errors import DeadlineExceeded, NotFound
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
    """Delete the definitions, and with them every object of their kinds; until they are gone.

    Raises DeadlineExceeded when objects hold them up, and says which: their operator has to finish them.
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
    """All objects of the kinds."""
    found: list[Custom] = []
    for crd in crds:
        api = api_of(crd)
        try:
            listed = await client.list(PartialObjectMetadata.of(api))
        except NotFound:  # the kind is not installed
            continue
        metas = [each.metadata for each in listed]
        found += [Custom(api, each.name, each.namespace, tuple(each.finalizers)) for each in metas]
    return found


async def delete_customs(client: Client, crds: Iterable[JSONObject], *, timeout: float) -> AsyncGenerator[Change]:
    """Delete all objects of the kinds, while their operator runs, and wait until it has finished them.

    Raises DeadlineExceeded, which names those that are left and what holds them.
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
    """The error that names objects which are still there."""
    shown = "; ".join(f"{each}, held by {', '.join(each.finalizers) or 'nothing'}" for each in left)
    return DeadlineExceeded(
        f"after {timeout:g} s there were still {shown}: does the operator run, and finish what is deleted? "
        "See `kubewright logs`; when it can't any more, take the finalizers off (kubectl edit)"
    )


def api_of(crd: JSONObject) -> APIResource:
    """The resource of a definition, in the version in which it is stored."""
    spec = crd["spec"]
    names, version = spec["names"], next(each["name"] for each in spec["versions"] if each["storage"])
    singular = names.get("singular") or names["kind"].lower()
    namespaced = spec["scope"] == "Namespaced"
    return APIResource(spec["group"], version, names["kind"], names["plural"], singular, namespaced=namespaced)
