"""Apply, compare and delete documents of any kind."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from kubewright.client import Client, PartialObjectMetadata, RESTMapper, Unstructured, decode_object
from kubewright.machinery.errors import ConfigError, NotFound
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource, Object
from kubewright_cli.manifests import Manifests
from kubewright_cli.manifests.names import Names

FIELD_MANAGER: Final = "kubewright-cli"
"""The field manager of the commands."""

Outcome = Literal["created", "configured", "unchanged", "migrated", "deleting", "deleted", "not found"]


@dataclass(frozen=True, slots=True)
class Change:
    """The outcome of a write."""

    object: str
    """`deployment.apps/web (in default)`"""
    outcome: Outcome
    finalizers: tuple[str, ...] = ()
    """What blocks the deletion of an object that is `deleting`."""

    def __str__(self) -> str:
        if self.outcome == "deleting":
            held = f", held by {', '.join(self.finalizers)}" if self.finalizers else ""
            return f"{self.object} is being deleted{held}"
        return f"{self.object} {self.outcome}"


def called(api: APIResource, name: str, namespace: str | None = None) -> str:
    """Return the name of an object as kubectl prints it."""
    kind = api.singular or api.kind.lower()
    where = f" (in {namespace})" if namespace else ""
    return f"{kind}{f'.{api.group}' if api.group else ''}/{name}{where}"


async def delete(client: Client, target: Object) -> Change:
    """Delete an object and its dependents. The outcome is `deleting` if the object still exists then."""
    shown = _name_of(target)
    try:
        await client.delete(target)
    except NotFound:
        return Change(shown, "not found")
    kind = PartialObjectMetadata.of(target.__api__)
    left = await client.get_or_none(kind, target.metadata.name, namespace=target.metadata.namespace)
    if left is None or left.metadata.deletion_timestamp is None:  # gone, or made again
        return Change(shown, "deleted")
    return Change(shown, "deleting", tuple(left.metadata.finalizers))


async def delete_all(client: Client, targets: Iterable[Object], *, timeout: float) -> AsyncGenerator[Change]:
    """Delete objects and their dependents, and wait until they are gone.

    Yields the outcome of each, and before it waits for an object, that it is `deleting`. Raises DeadlineExceeded.
    """
    waiting: list[tuple[Object, Change]] = []
    for target in targets:
        change = await delete(client, target)
        if change.outcome == "deleting":
            waiting.append((target, change))
        else:
            yield change
    for target, change in waiting:
        yield change
        meta = target.metadata
        kind = PartialObjectMetadata.of(target.__api__)
        await client.wait_until_gone(kind, meta.name, namespace=meta.namespace, timeout=timeout)
        yield Change(change.object, "deleted")


class Objects:
    """Reads and writes documents of any kind that the cluster serves."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._mapper = RESTMapper(client)

    async def apply(self, document: JSONObject) -> Change:
        """Server-side apply with force. Raises ConfigError for a kind that is not served."""
        kind = await self.kind(document)
        wanted = decode_object(kind, msgspec.json.encode(document))
        before = await self._version(kind, wanted)
        after = (await self.client.apply(wanted)).metadata.resource_version
        outcome: Outcome = "created" if before is None else "unchanged" if before == after else "configured"
        return Change(_name_of(wanted), outcome)

    async def differs(self, document: JSONObject) -> bool | None:
        """Return whether `apply` would change the object, by a dry run; None if the object does not exist."""
        kind = await self.kind(document)
        wanted = decode_object(kind, msgspec.json.encode(document))
        try:
            present = await self.client.get(kind, wanted.metadata.name, namespace=wanted.metadata.namespace)
        except NotFound:
            return None
        after = await self.client.apply(wanted, dry_run=True)
        return _comparable_content(present) != _comparable_content(after)

    async def delete_all(self, documents: Iterable[JSONObject], *, timeout: float) -> AsyncGenerator[Change]:
        """Delete the objects that documents name: see `delete_all`. A kind that is not served has no objects."""
        targets: list[Object] = []
        for document in documents:
            try:
                kind = await self.kind(document)
            except ConfigError:
                yield Change(f"{document['kind'].lower()}/{document['metadata']['name']}", "not found")
            else:
                targets.append(decode_object(kind, msgspec.json.encode(document)))
        async for change in delete_all(self.client, targets, timeout=timeout):
            yield change

    async def kind(self, document: JSONObject) -> type[Unstructured]:
        """Return the kind of a document. Raises ConfigError if it is not served."""
        return await self._mapper.kind(document["apiVersion"], document["kind"])

    async def _version(self, kind: type[Unstructured], obj: Unstructured) -> str | None:
        partial = PartialObjectMetadata.of(kind)
        try:
            found = await self.client.get(partial, obj.metadata.name, namespace=obj.metadata.namespace)
        except NotFound:
            return None
        return found.metadata.resource_version


def names_of(manifests: Manifests) -> Names:
    """Return the names of a deployment's objects in a cluster."""
    return Names.with_prefix(manifests.settings.name_prefix, manifests.settings.namespace)


def key_of(document: JSONObject) -> tuple[str, str, str, str]:
    """Group, kind, namespace and name."""
    metadata: Mapping[str, str] = document["metadata"]
    group = str(document["apiVersion"]).rpartition("/")[0]
    return group, document["kind"], metadata.get("namespace", ""), metadata["name"]


def _name_of(obj: Object) -> str:
    return called(obj.__api__, obj.metadata.name, obj.metadata.namespace)


def _comparable_content(obj: Unstructured) -> JSONObject:
    meta = obj.metadata
    content = {key: value for key, value in obj.content.items() if key != "status"}
    return {"labels": meta.labels, "annotations": meta.annotations, **content}
