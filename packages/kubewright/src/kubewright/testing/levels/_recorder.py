"""Every version of every object in a namespace, in the order of the API server.

Resource versions are revisions of one store, so they order the versions of different objects: whether an object was
reported ready before another one was healthy does not depend on when the watches delivered their events. Objects of
the operator's own kinds are recorded even if they are cluster-scoped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from kubewright.client import Client, RESTMapper, Unstructured, encode_object
from kubewright.machinery.errors import KubewrightError
from kubewright.machinery.json import JSONObject, read_object
from kubewright.models import APIResource

_FOLLOWED: Final = {
    "": ("configmaps", "persistentvolumeclaims", "pods", "secrets", "serviceaccounts", "services"),
    "apps": ("daemonsets", "deployments", "replicasets", "statefulsets"),
    "autoscaling": ("horizontalpodautoscalers",),
    "batch": ("cronjobs", "jobs"),
    "events.k8s.io": ("events",),
    "monitoring.coreos.com": ("prometheusrules", "servicemonitors", "podmonitors"),
    "networking.k8s.io": ("ingresses", "networkpolicies"),
    "policy": ("poddisruptionbudgets",),
    "rbac.authorization.k8s.io": ("rolebindings", "roles"),
}
"""Built-in resources that operators manage, by group."""
_RETRY: Final = 0.2


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an object."""

    revision: int
    document: JSONObject
    deleted: bool = False

    @property
    def name(self) -> str:
        """The kind and name, as `Deployment/web`."""
        return f"{self.document['kind']}/{self.document['metadata']['name']}"

    @property
    def uid(self) -> str:
        """The identity of the object."""
        return str(self.document["metadata"]["uid"])

    @property
    def kind(self) -> str:
        """The kind."""
        return str(self.document["kind"])


class Recorder:
    """The history of the objects in a namespace."""

    def __init__(self, client: Client, namespace: str, groups: Iterable[str]) -> None:
        """Follow built-in resources that operators manage, and all resources of `groups`."""
        self._client = client
        self._namespace = namespace
        self._groups = frozenset(groups)
        self._versions: dict[str, list[Version]] = {}
        self._last = 0.0
        self.failure = ""
        """Why a watch last failed; empty if none has failed."""

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Follow all objects while the block runs; all that exist are known when it begins."""
        kinds = [Unstructured.of(api) for api in await self._resources()]
        listed = await asyncio.gather(*(self._list(kind) for kind in kinds))
        tasks = [
            asyncio.create_task(self._follow(kind, revision)) for kind, revision in zip(kinds, listed, strict=True)
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def touch(self) -> None:
        """Count something that happened now as a write, for `quiet_for`."""
        self._last = asyncio.get_running_loop().time()

    def quiet_for(self) -> float:
        """Return the seconds since the last write; Events do not count."""
        return asyncio.get_running_loop().time() - self._last

    def revision(self) -> int:
        """Return the newest revision."""
        return max((versions[-1].revision for versions in self._versions.values()), default=0)

    def history(self, uid: str, *, after: int = 0) -> list[Version]:
        """Return the versions of an object, oldest first."""
        return [each for each in self._versions.get(uid, []) if each.revision > after]

    def now(self, kind: str = "") -> list[Version]:
        """Return the newest versions of the objects that exist, sorted by kind and name."""
        found = (versions[-1] for versions in self._versions.values())
        return sorted((each for each in found if not each.deleted and kind in ("", each.kind)), key=lambda x: x.name)

    def at(self, uid: str, revision: int) -> Version | None:
        """Return the version of an object at a revision; None if it did not exist."""
        before = [each for each in self._versions.get(uid, []) if each.revision <= revision]
        return before[-1] if before and not before[-1].deleted else None

    def all_objects(self, *, after: int = 0) -> Iterator[list[Version]]:
        """Yield the versions of each object that has changed after a revision."""
        for versions in self._versions.values():
            if versions[-1].revision > after:
                yield versions

    async def _resources(self) -> list[APIResource]:
        served = await RESTMapper(self._client).resources()
        return [each.api for each in served if each.preferred and "watch" in each.verbs and self._follows(each.api)]

    def _follows(self, api: APIResource) -> bool:
        return api.group in self._groups or (api.namespaced and api.plural in _FOLLOWED.get(api.group, ()))

    def _place(self, kind: type[Unstructured]) -> str | None:
        return self._namespace if kind.__api__.namespaced else None

    async def _list(self, kind: type[Unstructured]) -> str:
        found = await self._client.list(kind, namespace=self._place(kind))
        for each in found:
            self._record(kind, each, deleted=False)
        return found.resource_version

    async def _follow(self, kind: type[Unstructured], revision: str) -> None:
        while True:
            try:
                stream = self._client.watch(kind, namespace=self._place(kind), resource_version=revision)
                async with aclosing(stream) as events:
                    async for event in events:
                        revision = event.object.metadata.resource_version or revision
                        self._record(kind, event.object, deleted=event.type == "DELETED")
            except KubewrightError as error:
                self.failure = f"{kind.__api__.kind}: {error}"
                await asyncio.sleep(_RETRY)
                revision = await self._list_again(kind, revision)

    async def _list_again(self, kind: type[Unstructured], revision: str) -> str:
        try:
            return await self._list(kind)
        except KubewrightError as error:
            self.failure = f"{kind.__api__.kind}: {error}"
            return revision

    def _record(self, kind: type[Unstructured], obj: Unstructured, *, deleted: bool) -> None:
        metadata = obj.metadata
        versions = self._versions.setdefault(metadata.uid or "", [])
        revision = int(metadata.resource_version or 0)
        if versions and versions[-1].revision >= revision:
            return
        versions.append(Version(revision, document_of(obj), deleted))
        if kind.__api__.kind != "Event":
            self.touch()


def document_of(obj: Unstructured) -> JSONObject:
    """Return an object as a document."""
    return read_object(encode_object(obj))


def first(versions: Iterable[Version], holds: Callable[[Version], bool]) -> Version | None:
    """Return the first version for which `holds` returns True."""
    return next((each for each in versions if holds(each)), None)
