"""What is installed of a bundle: a ConfigMap `bundle-<package>` in the operator's namespace.

It is written before any other object, and names everything that may exist. So a run after an interruption knows what
the interrupted one may have written. It is deleted last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.core.v1 import ConfigMap, Namespace
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.client import Client, PartialObjectMetadata, Unstructured
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.machinery.json import JSONObject
from kubewright.models import Object
from kubewright_cli.deployment.objects import Objects
from kubewright_cli.installation.render import OWNER
from kubewright_cli.olm.parts import mapping
from kubewright_cli.olm.semver import Version

PACKAGE: Final = "kubewright.dev/package"
"""The label of an inventory: the package of the bundle."""
_KEY: Final = "inventory.json"

State = Literal["installing", "installed", "removing"]


class Entry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, order=True):
    """An object of an installation."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""

    @classmethod
    def of(cls, document: JSONObject) -> Entry:
        """Return the entry of a document."""
        metadata = mapping(document["metadata"])
        return cls(document["apiVersion"], document["kind"], metadata["name"], metadata.get("namespace", ""))

    @property
    def document(self) -> JSONObject:
        """A document that only names the object."""
        metadata = {"name": self.name, **({"namespace": self.namespace} if self.namespace else {})}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata}

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Group, kind, namespace and name: the same for all versions of a kind."""
        return self.api_version.rpartition("/")[0], self.kind, self.namespace, self.name


class Inventory(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """An installation of a bundle."""

    package: str
    namespace: str
    bundle: str
    """The name of the ClusterServiceVersion."""
    version: str
    state: State
    watched_namespaces: list[str] = []
    """The namespaces that the operator works in; none for all."""
    objects: list[Entry] = []
    properties: list[JSONObject] = []
    """The properties of the bundle, for the dependencies of others."""
    trusted: dict[str, str] = {}
    """A digest of the CAs that the API server trusts after the last complete run, by the name of the Secret."""

    @property
    def owner(self) -> str:
        """The value of the annotation of its objects."""
        return f"{self.namespace}/{self.package}"

    @property
    def semver(self) -> Version:
        return Version.parse(self.version)

    async def write(self, client: Client) -> None:
        """Write it to the cluster."""
        metadata = ObjectMeta(
            name=config_map_of(self.package),
            namespace=self.namespace,
            labels={PACKAGE: self.package},
            annotations={OWNER: self.owner},
        )
        await client.apply(ConfigMap(metadata=metadata, data={_KEY: msgspec.json.encode(self).decode()}))

    async def delete(self, client: Client) -> None:
        """Delete it. Does nothing if it does not exist."""
        found = await client.get_or_none(ConfigMap, config_map_of(self.package), namespace=self.namespace)
        if found is not None:
            await client.delete(found)


@dataclass(frozen=True, slots=True)
class Installation:
    """What a cluster has of a package: an inventory, or what remains without one.

    CRDs remain if a cleanup keeps them, and the namespace, if a cleanup is killed at its end.
    """

    package: str
    namespace: str
    inventory: Inventory | None
    crds: list[Entry]
    """The CRDs with the annotation of the installation."""
    made_namespace: bool
    """Whether the namespace has the annotation."""

    @property
    def owner(self) -> str:
        """The value of the annotation of its objects."""
        return f"{self.namespace}/{self.package}"

    @property
    def entries(self) -> list[Entry]:
        """Everything but the namespace, in the order in which it was applied."""
        return merged(self.inventory.objects if self.inventory is not None else (), self.crds)


def config_map_of(package: str) -> str:
    """Return the name of the ConfigMap."""
    return f"bundle-{package}"


async def inventories(client: Client, package: str = "", namespace: str = "") -> list[Inventory]:
    """Return the installations of a package, or all of them, in one namespace or, by default, in all.

    Raises ConfigError for one that cannot be read.
    """
    labels = {PACKAGE: package} if package else f"{PACKAGE}"
    found = await client.list(ConfigMap, namespace=namespace or None, labels=labels)
    return [_read(each) for each in found]


def _read(found: ConfigMap) -> Inventory:
    try:
        return msgspec.json.decode(found.data.get(_KEY, ""), type=Inventory)
    except (msgspec.MsgspecError, DecodeError) as error:
        where = f"ConfigMap {found.metadata.namespace}/{found.metadata.name}"
        raise ConfigError(
            f"{where}: {_KEY} cannot be read: {error}. It says what is installed; restore it, or delete it together "
            f"with all objects that have the annotation {OWNER}"
        ) from error


async def only_inventory(client: Client, package: str, namespace: str = "") -> Inventory | None:
    """Return the one installation of a package; None if there is none. Raises ConfigError if there are several."""
    found = await inventories(client, package, namespace)
    if len(found) > 1:
        raise _several(package, [each.namespace for each in found])
    return found[0] if found else None


async def find_installation(client: Client, package: str, namespace: str = "") -> Installation | None:
    """Return what the cluster has of a package; None if there is nothing.

    Raises ConfigError if the package is installed in several namespaces, and none is named.
    """
    found = {each.namespace: each for each in await inventories(client, package, namespace)}
    definitions = await _owned(client, CustomResourceDefinition, package)
    spaces = await _owned(client, Namespace, package)
    places = {each for each in (*found, *definitions, *spaces) if namespace in ("", each)}
    if len(places) > 1:
        raise _several(package, places)
    api = CustomResourceDefinition.__api__
    for place in places:
        crds = [Entry(api.api_version, api.kind, name) for name in definitions.get(place, ())]
        return Installation(package, place, found.get(place), crds, place in spaces)
    return None


async def _owned(client: Client, kind: type[Object], package: str) -> dict[str, list[str]]:
    """Return the names of objects with the annotation of a package, by the namespace in the annotation."""
    found: dict[str, list[str]] = {}
    for each in await client.list(PartialObjectMetadata.of(kind)):
        where, _, of = _owner(each.metadata).partition("/")
        if of == package:
            found.setdefault(where, []).append(each.metadata.name)
    return found


def _several(package: str, namespaces: Iterable[str]) -> ConfigError:
    listed = ", ".join(sorted(namespaces))
    return ConfigError(f"package {package} is installed in several namespaces: {listed}; name one with --namespace")


def _owner(metadata: ObjectMeta) -> str:
    return metadata.annotations.get(OWNER, "")


def merged(*lists: Iterable[Entry]) -> list[Entry]:
    """Return each entry once; the first one of an object that has several versions."""
    found: dict[tuple[str, str, str, str], Entry] = {}
    for each in (entry for one in lists for entry in one):
        found.setdefault(each.key, each)
    return list(found.values())


async def owner_of(objects: Objects, entry: Entry) -> str | None:
    """Return the installation that an object belongs to, empty for none; None if the object does not exist."""
    try:
        kind = await objects.kind(entry.document)
    except ConfigError:  # the cluster does not serve the kind
        return None
    found = await objects.client.get_or_none(
        PartialObjectMetadata.of(kind), entry.name, namespace=entry.namespace or None
    )
    return None if found is None else _owner(found.metadata)


async def foreign_objects(objects: Objects, owner: str, entries: Iterable[Entry]) -> list[str]:
    """Return the objects that exist and are not of the installation `owner`, with their owners."""
    found: list[str] = []
    for entry in entries:
        theirs = await owner_of(objects, entry)
        if theirs is not None and theirs != owner and not await _was_kept(objects.client, entry, owner, theirs):
            where = f"{entry.namespace}/" if entry.namespace else ""
            whose = f"which belongs to the bundle {theirs}" if theirs else "which no bundle installed"
            found.append(f"{entry.kind} {where}{entry.name}, {whose}")
    return found


async def _was_kept(client: Client, entry: Entry, owner: str, theirs: str) -> bool:
    """Return whether an object is a CRD that a cleanup of the same package in another namespace has kept."""
    namespace, _, package = theirs.partition("/")
    if entry.kind != CustomResourceDefinition.__api__.kind or package != owner.partition("/")[2]:
        return False
    return await client.get_or_none(ConfigMap, config_map_of(package), namespace=namespace) is None


async def definition_of(client: Client, entry: Entry) -> JSONObject | None:
    """Return a CRD as the cluster has it; None if it does not exist."""
    kind = Unstructured.of(CustomResourceDefinition.__api__)
    found = await client.get_or_none(kind, entry.name)
    if found is None:
        return None
    api = kind.__api__
    return {"apiVersion": api.api_version, "kind": api.kind, "metadata": {"name": entry.name}, **found.content}
