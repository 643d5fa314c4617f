"""What holds for the server after any requests: the checks after a batch of steps."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from hostile.exchanges import request
from hostile.target import Broken, Connection, Target
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver import catalog

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_SETTLED: Final = 300.0
_ATTEMPTS: Final = 20
Key = tuple[str, str]


@dataclass(frozen=True)
class Listed:
    """A resource that can be listed."""

    path: str
    """The path of all its objects."""
    namespaced: bool
    verbs: frozenset[str]
    built_in: bool

    def of(self, obj: JSONObject) -> str:
        """Return the path of an object."""
        namespace, name = key_of(obj)
        version, _, plural = self.path.rpartition("/")
        return f"{version}/namespaces/{namespace}/{plural}/{name}" if self.namespaced else f"{self.path}/{name}"


def key_of(obj: JSONObject) -> Key:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


@dataclass
class Copy:
    """A copy of a resource's objects that a watch keeps."""

    objects: dict[Key, JSONObject] = field(default_factory=dict[Key, JSONObject])
    newest: int = 0
    ended: str = ""
    """Why there are no more events; empty while the watch runs."""

    async def follow(self, target: Target, path: str) -> None:
        """List, then watch until the server ends the watch."""
        connection: Connection | None = None
        try:
            answer = await target.ask("GET", path)
            if answer.status != 200:
                self.ended = f"the list is answered with {answer.status}"
                return
            listed = answer.json
            self.objects = {key_of(item): item for item in listed["items"]}
            self.newest = int(listed["metadata"]["resourceVersion"])
            connection = await target.connect()
            await connection.send(request("GET", f"{path}?watch=1&resourceVersion={self.newest}"))
            async for event in connection.events():
                self._take(event)
            self.ended = self.ended or "the server ended the watch"
        except ConnectionError as error:
            self.ended = str(error)
        finally:
            if connection is not None:
                connection.abort()

    def _take(self, event: JSONObject) -> None:
        if event.get("type", "ERROR") == "ERROR":
            self.ended = f"an error: {event}"
            return
        obj = event["object"]
        version = int(obj["metadata"]["resourceVersion"])
        if version <= self.newest:
            raise Broken(f"a watch went from revision {self.newest} back to {version}")
        self.newest = version
        if event["type"] == "DELETED":
            del self.objects[key_of(obj)]
        else:
            if (event["type"] == "ADDED") is (key_of(obj) in self.objects):
                raise Broken(f"a watch reported {event['type']} for {key_of(obj)}")
            self.objects[key_of(obj)] = {name: item for name, item in obj.items() if name not in ("kind", "apiVersion")}


class Invariants:
    """Follows all resources of a server, and checks them after each batch."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._copies: dict[str, Copy] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._checked: dict[tuple[str, Key], str] = {}
        self._revision = 0

    async def follow(self) -> None:
        """Begin to watch the resources that are not watched yet."""
        for each in await listed_resources(self._target):
            task = self._tasks.get(each.path)
            if "watch" in each.verbs and (task is None or task.done()):
                copy = self._copies[each.path] = Copy()
                self._tasks[each.path] = asyncio.create_task(copy.follow(self._target, each.path))

    async def check(self) -> None:
        """Raise Broken for the first promise that does not hold."""
        await check_documents(self._target)
        resources = await listed_resources(self._target)
        for each in resources:
            for item in await self._check_list(each):
                await self._check_object(each, item)
            await self._check_copy(each)
        await self._check_counts(resources)
        self._target.check_log()

    async def _check_list(self, resource: Listed) -> list[JSONObject]:
        """Check that all forms of a list agree. Returns its items."""
        listed = (await self._target.get(resource.path)).json
        items: list[JSONObject] = listed["items"]
        revision = int(listed["metadata"]["resourceVersion"])
        if revision < self._revision:
            raise Broken(f"{resource.path}: the revision of lists went from {self._revision} to {revision}")
        self._revision = revision
        names = [key_of(item) for item in items]
        if len(set(names)) != len(names):
            raise Broken(f"{resource.path}: an object is listed twice: {names}")
        for item in items:
            _check_metadata(resource, item, revision)
        rows = (await self._target.get(resource.path, TABLE)).json["rows"]
        metadata = (await self._target.get(resource.path, METADATA)).json["items"]
        await self._target.get(resource.path, "application/yaml")
        if resource.built_in:
            await self._target.get(resource.path, PROTOBUF)
        paged = await self._paged(resource) if len(items) > 3 else names
        if not len(rows) == len(metadata) == len(items) or paged != names:
            raise Broken(f"{resource.path}: {len(items)} items, {len(rows)} rows, {len(metadata)} metadata, {paged}")
        return items

    async def _paged(self, resource: Listed) -> list[Key]:
        found: list[Key] = []
        token = ""
        while True:
            page = (await self._target.get(f"{resource.path}?limit={max(3, len(found))}&continue={token}")).json
            found += [key_of(item) for item in page["items"]]
            token = page["metadata"].get("continue", "")
            if not token:
                return found

    async def _check_object(self, resource: Listed, item: JSONObject) -> None:
        """Check that an object that has changed can be read, written back and encoded."""
        known = (resource.path, key_of(item))
        if self._checked.get(known) == item["metadata"]["resourceVersion"]:
            return
        self._checked[known] = item["metadata"]["resourceVersion"]
        path = resource.of(item)
        if "get" in resource.verbs:
            got: JSONObject = (await self._target.get(path)).json
            is_same = got["metadata"]["resourceVersion"] == item["metadata"]["resourceVersion"]
            if is_same and _without_kind(got) != _without_kind(item):
                raise Broken(f"{path}: get and list differ: {json.dumps(got)[:1500]} {json.dumps(item)[:1500]}")
            await self._target.get(path, "application/yaml")
            if resource.built_in:
                await self._target.get(path, PROTOBUF)
            if "update" in resource.verbs:
                await self._target.ask("PUT", f"{path}?dryRun=All", got, status=(200, 403, 404, 405, 409, 422))
            if "delete" in resource.verbs:
                await self._target.ask("DELETE", f"{path}?dryRun=All", status=(200, 202, 403, 409, 422, 429))

    async def _check_copy(self, resource: Listed) -> None:
        """Check that a watch has seen what a list returns. Waits for events that are on their way."""
        copy, task = self._copies.get(resource.path), self._tasks.get(resource.path)
        if copy is None or task is None:
            return
        try:
            async with asyncio.timeout(_SETTLED):
                while not task.done():
                    items = (await self._target.get(resource.path)).json["items"]
                    if copy.objects == {key_of(item): _without_kind(item) for item in items}:
                        return
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise Broken(f"{resource.path}: {_difference(copy.objects, items)}") from None
        task.result()

    async def _check_counts(self, resources: Sequence[Listed]) -> None:
        """Check that the server's count of objects is that of its lists. Controllers may write between both."""
        for attempt in range(_ATTEMPTS):
            counts = {each.path: len((await self._target.get(each.path)).json["items"]) for each in resources}
            wrong = await self._wrong_counts(counts)
            resources = [each for each in resources if each.path in wrong]
            if not wrong:
                return
            await asyncio.sleep(0.1 * attempt)
        raise Broken("; ".join(wrong.values()))

    async def _wrong_counts(self, counts: dict[str, int]) -> dict[str, str]:
        """Return the paths whose lists have another count than the server's metrics, and what differs."""
        wrong: dict[str, str] = {}
        text = (await self._target.get("/metrics", "text/plain")).body.decode()
        for family in text_string_to_metric_families(text):
            if family.name == "apiserver_storage_objects":
                stored = {sample.labels["resource"]: sample.value for sample in family.samples}
                for path, count in counts.items():
                    name = _stored_name(path)
                    if name in stored and stored[name] != count and name not in ("events", "events.events.k8s.io"):
                        wrong[path] = f"{path}: {count} objects are listed, {stored[name]:g} are stored"
        return wrong

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        for task in self._tasks.values():
            with contextlib.suppress(asyncio.CancelledError, Broken):
                await task


def _difference(watched: dict[Key, JSONObject], items: list[JSONObject]) -> str:
    listed = {key_of(item): _without_kind(item) for item in items}
    for key in sorted(watched.keys() | listed):
        if watched.get(key) != listed.get(key):
            return f"of {key} a watch has {json.dumps(watched.get(key))}, and a list {json.dumps(listed.get(key))}"
    return "a watch and a list agreed too late"


def _without_kind(item: JSONObject) -> JSONObject:
    return {name: each for name, each in item.items() if name not in ("kind", "apiVersion")}


def _stored_name(path: str) -> str:
    parts = path.split("/")
    return parts[-1] if parts[1] == "api" else f"{parts[-1]}.{parts[2]}"


def _check_metadata(resource: Listed, item: JSONObject, revision: int) -> None:
    metadata: Any = item["metadata"]
    if not metadata.get("name") or not metadata.get("uid") or not metadata.get("creationTimestamp"):
        raise Broken(f"{resource.path}: an object without name, uid or time: {json.dumps(item)[:500]}")
    if bool(metadata.get("namespace")) is not resource.namespaced:
        raise Broken(f"{resource.path}: an object with a wrong namespace: {json.dumps(metadata)[:500]}")
    if int(metadata["resourceVersion"]) > revision:
        raise Broken(f"{resource.path}: {metadata['name']} is newer than its list")


async def listed_resources(target: Target) -> list[Listed]:
    """Return the resources that can be listed, from discovery."""
    groups = (await target.get("/apis")).json["groups"]
    paths = ["/api/v1", *(f"/apis/{version['groupVersion']}" for group in groups for version in group["versions"])]
    known = {gv.path for gv in catalog.group_versions()}
    found: list[Listed] = []
    for path in paths:
        built_in = path in known
        answer = await target.ask("GET", path, status=(200, 503))
        if answer.status != 200:
            continue  # an aggregated API that no server serves
        for each in answer.json["resources"]:
            if "/" not in each["name"] and "list" in each["verbs"] and each["name"] != "componentstatuses":
                verbs = frozenset(each["verbs"])
                found.append(Listed(f"{path}/{each['name']}", each["namespaced"], verbs, built_in))
    return found


async def check_documents(target: Target) -> None:
    """Check that discovery and OpenAPI answer."""
    for path in ("/api", "/apis", "/version", "/readyz", "/openapi/v2", "/openid/v1/jwks"):
        await target.get(path, "*/*")
    await target.get("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    documents: Iterable[str] = (await target.get("/openapi/v3")).json["paths"]
    for path in documents:
        if "example.com" in path:
            document = (await target.get(f"/openapi/v3/{path}")).json
            if "components" not in document:
                raise Broken(f"/openapi/v3/{path} has no components")
