"""The project's CRDs in a cluster: install them and wait until they are served, remove them with all their objects.

The cluster may serve other versions of a kind than the program has. Objects are therefore listed and deleted through a
version that the cluster serves.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from typing import Final

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.client import Client, PartialObjectMetadata
from kubewright.client._crds import is_established as is_established
from kubewright.client._crds import until_established
from kubewright.machinery.errors import ConfigError, DeadlineExceeded, InternalError, NotFound
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource
from kubewright_cli.deployment import conversions
from kubewright_cli.deployment.conversions import installed_crd as installed_crd
from kubewright_cli.deployment.objects import Change, Objects, called, delete_all

FINALIZE: Final = (
    "See `kubewright logs` for why the operator does not finalize them, or remove the finalizers (kubectl edit)"
)
FINISH_DELETION: Final = (
    "Let the operator finalize the objects: `kubewright deploy` runs it, and installs the CRD again when it is gone. "
    "Without an operator, remove the finalizers (kubectl edit)"
)
"""What to do about a CRD that is being deleted."""
_SHOWN: Final = 5
"""Objects that a message names."""


@dataclass(frozen=True, slots=True)
class Custom:
    """An object of one of the project's kinds."""

    api: APIResource
    name: str
    namespace: str | None
    finalizers: tuple[str, ...]

    def __str__(self) -> str:
        return called(self.api, self.name, self.namespace)


@dataclass(frozen=True, slots=True)
class TerminatingCRD:
    """A CRD that is being deleted, and the objects that block its deletion."""

    name: str
    uid: str
    objects: tuple[Custom, ...]

    @property
    def problem(self) -> str:
        """`is being deleted, and waits for widget.example.com/one (in default), held by example.com/finish`"""
        return f"is being deleted, and waits for {listed(self.objects)}" if self.objects else "is being deleted"

    def __str__(self) -> str:
        return f"CustomResourceDefinition {self.name} {self.problem}"


async def terminating(client: Client, crds: Iterable[JSONObject]) -> list[TerminatingCRD]:
    """Return those of the CRDs that are being deleted."""
    found: list[TerminatingCRD] = []
    for crd in crds:
        installed = await installed_crd(client, crd)
        if installed is not None and installed.metadata.deletion_timestamp is not None:
            meta = installed.metadata
            objects = await customs(client, [crd]) if served_versions(installed) else []
            found.append(TerminatingCRD(meta.name, meta.uid or "", tuple(objects)))
    return found


@dataclass(frozen=True, slots=True)
class LostVersions:
    """A CRD in the cluster with stored versions that the program no longer has."""

    name: str
    versions: str
    """`v1alpha1, v1beta1`"""

    @property
    def problem(self) -> str:
        return (
            f"objects may be stored in versions that the program no longer has ({self.versions}), and the API server "
            "rejects its CRD"
        )

    @property
    def remedy(self) -> str:
        return (
            f"declare {self.versions} again with storage=False, run `kubewright install` and `kubewright migrate` "
            "(which corrects status.storedVersions), then remove the class again"
        )

    @classmethod
    def of(cls, crd: JSONObject, installed: CustomResourceDefinition) -> LostVersions | None:
        """Return the stored versions that `crd` lacks; None if it has all."""
        declared = {each["name"] for each in crd["spec"]["versions"]}
        lost = [each for each in installed.status.stored_versions if each not in declared]
        return cls(installed.metadata.name, ", ".join(lost)) if lost else None


async def require_installable(client: Client, crds: Iterable[JSONObject], *, doomed: Iterable[str] = ()) -> None:
    """Raise ConfigError for CRDs that the API server would reject because of versions that are stored.

    CRDs in `doomed` are being deleted, with the objects that are stored.
    """
    doomed = set(doomed)
    for crd in crds:
        installed = await installed_crd(client, crd)
        lost = None if installed is None or crd["metadata"]["name"] in doomed else LostVersions.of(crd, installed)
        if lost is not None:
            raise ConfigError(
                f"CustomResourceDefinition {lost.name}: {lost.problem}. Nothing was changed. To repair "
                f"it, {lost.remedy}"
            )


async def require_not_terminating(client: Client, crds: Iterable[JSONObject]) -> None:
    """Raise ConfigError for CRDs that are being deleted: what is applied to them would be lost."""
    found = await terminating(client, crds)
    if found:
        raise ConfigError(f"{'. '.join(map(str, found))}. Nothing was changed. {FINISH_DELETION}")


async def replace_terminating(
    client: Client, crds: Iterable[JSONObject], doomed: Iterable[TerminatingCRD], *, namespace: str, timeout: float
) -> AsyncGenerator[Change]:
    """Wait until the operator has finalized the objects of the `doomed` CRDs, and install these CRDs again.

    Raises DeadlineExceeded, which names the CRD and the objects whose finalizers block its deletion.
    """
    crds, doomed = list(crds), list(doomed)
    for each in doomed:
        try:
            await client.wait_until_gone(CustomResourceDefinition, each.name, uid=each.uid, timeout=timeout)
        except DeadlineExceeded:
            left = await terminating(client, crds)
            shown = ". ".join(str(crd) for crd in left if crd.name == each.name) or str(each)
            raise DeadlineExceeded(
                f"after {timeout:g} s {shown}. {FINALIZE}, then run the same command again"
            ) from None
    names = {each.name for each in doomed}
    again = [crd for crd in crds if crd["metadata"]["name"] in names]
    async for change in install(client, again, namespace=namespace):
        yield change


async def install(client: Client, crds: Iterable[JSONObject], *, namespace: str = "") -> AsyncGenerator[Change]:
    """Apply CustomResourceDefinitions, and wait until they are served: see `until_established`.

    With the `namespace` of an operator, for its deployment; see `conversions.to_deploy`. Otherwise, installed CRDs keep
    their conversion webhooks.

    Raises ConfigError before anything is changed if a CRD is being deleted, or lacks versions that are stored.
    """
    objects, crds = Objects(client), list(crds)
    await require_not_terminating(client, crds)
    await require_installable(client, crds)
    for crd in crds:
        to_apply = conversions.to_deploy(client, crd, namespace) if namespace else conversions.to_install(client, crd)
        yield await objects.apply(await to_apply)
    for crd in crds:
        await until_established(client, crd["metadata"]["name"])


async def uninstall(client: Client, crds: Iterable[JSONObject], *, timeout: float) -> AsyncGenerator[Change]:
    """Delete the CRDs and every object of their kinds, and wait until they are gone: see `objects.delete_all`.

    A conversion webhook that does not answer would block that, so its CRD gets the strategy None before.
    Raises DeadlineExceeded, which names the objects whose finalizers block the deletion.
    """
    crds = list(crds)
    broken = await unconvertible(client, crds)
    async for change in conversions.stop(client, [crd for crd in crds if crd["metadata"]["name"] in broken]):
        yield change
    try:
        async for change in Objects(client).delete_all(crds, timeout=timeout):
            yield change
    except DeadlineExceeded:
        raise held_up(await customs(client, crds), timeout) from None


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
            objects = await client.list(PartialObjectMetadata.of(api))
        except NotFound:  # the CRD was deleted a moment ago
            continue
        metas = [each.metadata for each in objects]
        found += [Custom(api, each.name, each.namespace, tuple(each.finalizers)) for each in metas]
    return found


async def unconvertible(client: Client, crds: Iterable[JSONObject]) -> dict[str, str]:
    """Return why objects cannot be listed because their conversion fails, by the name of the CRD."""
    found: dict[str, str] = {}
    for crd in crds:
        try:
            await customs(client, [crd])
        except InternalError as error:
            if not conversions.is_conversion_failure(error):
                raise
            found[crd["metadata"]["name"]] = str(error)
        except ConfigError:  # no version is served
            continue
    return found


def served_versions(installed: CustomResourceDefinition) -> list[str]:
    """Return the versions that the cluster serves."""
    return [each.name for each in installed.spec.versions if each.served]


def storage_version(installed: CustomResourceDefinition) -> str:
    """Return the version that the cluster stores objects in."""
    return next((each.name for each in installed.spec.versions if each.storage), "")


def served_api(crd: JSONObject, installed: CustomResourceDefinition, preferred: str = "") -> APIResource:
    """Return the resource in a version that the cluster serves: `preferred`, or the program's storage version, if
    possible.

    Raises ConfigError if the cluster serves no version.
    """
    served = served_versions(installed)
    if not served:
        raise ConfigError(
            f"CustomResourceDefinition {installed.metadata.name} serves no version, so its objects cannot be listed; "
            "run `kubewright install`, or set served: true for a version, and try again"
        )
    own = api_of(crd)
    candidates = (preferred, own.version, storage_version(installed))
    version = next((each for each in candidates if each in served), served[0])
    return APIResource(own.group, version, own.kind, own.plural, own.singular, namespaced=own.namespaced)


async def delete_customs(client: Client, crds: Iterable[JSONObject], *, timeout: float) -> AsyncGenerator[Change]:
    """Delete all objects of the kinds while their operator runs. Ends when the operator has finalized them.

    Raises DeadlineExceeded, which names the objects that remain and their finalizers.
    """
    crds = list(crds)
    doomed = await customs(client, crds)
    targets = [
        PartialObjectMetadata.of(each.api)(metadata=ObjectMeta(name=each.name, namespace=each.namespace or ""))
        for each in doomed
    ]
    try:
        async for change in delete_all(client, targets, timeout=timeout):
            yield change
    except DeadlineExceeded:
        raise held_up(await customs(client, crds), timeout) from None


def listed(objects: Iterable[Custom]) -> str:
    """Return the first objects with their finalizers, and the number of the others."""
    objects = list(objects)
    shown = [f"{each}, held by {', '.join(each.finalizers) or 'nothing'}" for each in objects[:_SHOWN]]
    return "; ".join(shown + ([f"and {len(objects) - _SHOWN} more"] if len(objects) > _SHOWN else []))


def held_up(left: Iterable[Custom], timeout: float) -> DeadlineExceeded:
    """Return the error that names the objects that remain."""
    return DeadlineExceeded(
        f"after {timeout:g} s these objects remained: {listed(left)}. "
        "Does the operator run and finalize deleted objects? "
        "See `kubewright status`; `kubewright deploy` or `kubewright run` starts it. If it no longer can, remove the "
        "finalizers (kubectl edit)"
    )


def api_of(crd: JSONObject) -> APIResource:
    """Return the resource that a CRD defines, in its storage version."""
    spec = crd["spec"]
    names, version = spec["names"], next(each["name"] for each in spec["versions"] if each["storage"])
    singular = names.get("singular") or names["kind"].lower()
    namespaced = spec["scope"] == "Namespaced"
    return APIResource(spec["group"], version, names["kind"], names["plural"], singular, namespaced=namespaced)
