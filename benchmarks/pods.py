"""Pods on a real API server, 4 KB of JSON each, as many as asked for; and what a cache must know of them.

One Pod is created through the API server, so that it is admitted, defaulted, owned and encoded as any other. The rest
are copies of its bytes in etcd, with names and uids of their own: a hundred thousand take seconds, not minutes.
"""

from __future__ import annotations

import asyncio
import random
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import msgspec

from benchmarks.report import NotMeasured
from kubewright.apis.core.v1 import Pod
from kubewright.client.client import Client
from kubewright.client.patch import MergePatch
from kubewright.client.rest import Query
from kubewright.http.client import HTTPClient
from kubewright.http.message import Request
from kubewright.machinery.json import JSONObject
from kubewright.testing.realcontrolplane import RealControlPlane

NAMESPACE: Final = "default"
NOTE: Final = "bench.kubewright.dev/note"

_COLLECTION: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_KEYS: Final = f"/registry/pods/{NAMESPACE}/"
_IN_ONE_WRITE: Final = 100
"""Copies in one transaction; etcd takes 128."""
_CHANGED: Final = 20
_PATIENCE: Final = 120.0
_LOOK: Final = 0.1

Known: TypeAlias = Mapping[str, Sequence[str]]
"""Of each Pod its resource version and its note."""


class Pods:
    """All the Pods of an API server."""

    def __init__(self, client: Client, etcd: HTTPClient) -> None:
        self._client = client
        self._etcd = etcd
        self._names: list[str] = []

    @property
    def count(self) -> int:
        return len(self._names)

    async def create(self, count: int) -> int:
        """Make `count` Pods; gives the bytes of one as JSON. Raises NotMeasured when they do not appear."""
        first = name_of(0)
        created = msgspec.json.decode(await self._write("POST", _COLLECTION, _pod(first)), type=JSONObject)
        size = len(await self._write("PUT", f"{_COLLECTION}/{first}/status", created | {"status": _STATUS}))
        found = await self._store("range", {"key": _base64(_KEYS + first)})
        stored = b64decode(found["kvs"][0]["value"])
        for begin in range(1, count, _IN_ONE_WRITE):
            numbers = range(begin, min(begin + _IN_ONE_WRITE, count))
            await self._put({name_of(each): copied(stored, created["metadata"]["uid"], each) for each in numbers})
        self._names = [name_of(number) for number in range(count)]
        await self._served()
        return size

    async def disturb(self) -> None:
        """Update some Pods and delete some others, at random."""
        for name in random.sample(self._names, _CHANGED):
            patch = MergePatch({"metadata": {"annotations": {NOTE: f"{name} was changed"}}})
            await self._client.patch(Pod, patch, name=name, namespace=NAMESPACE)
        for name in random.sample(self._names, _CHANGED):
            await self._client.delete(Pod, name, namespace=NAMESPACE, grace_period=0)
            self._names.remove(name)

    async def sample(self, size: int) -> Known:
        """What there is to know of some Pods, drawn at random."""
        drawn = [
            await self._client.get(Pod, name, namespace=NAMESPACE)
            for name in random.sample(self._names, min(size, self.count))
        ]
        return {each.metadata.name: [each.metadata.resource_version, each.metadata.annotations[NOTE]] for each in drawn}

    async def _write(self, method: str, path: str, document: JSONObject) -> bytes:
        return await self._client.rest.request(method, path, body=msgspec.json.encode(document))

    async def _put(self, values: Mapping[str, bytes]) -> None:
        puts = [
            {"requestPut": {"key": _base64(_KEYS + name), "value": b64encode(value).decode()}}
            for name, value in values.items()
        ]
        await self._store("txn", {"success": puts})

    async def _store(self, call: str, document: JSONObject) -> JSONObject:
        """Call etcd by its JSON gateway."""
        response = await self._etcd.send(Request("POST", f"/v3/kv/{call}", {}, msgspec.json.encode(document)))
        answer = await response.read()
        if response.status != 200:
            raise NotMeasured(f"etcd refused {call}: {answer.decode(errors='replace')}")
        return msgspec.json.decode(answer, type=JSONObject)

    async def _served(self) -> None:
        """Until the API server tells of as many Pods as there are."""
        one: Query = {"limit": "1"}
        found = 0
        for _ in range(int(_PATIENCE / _LOOK)):
            page = msgspec.json.decode(await self._client.rest.request("GET", _COLLECTION, one), type=JSONObject)
            found = len(page["items"]) + page["metadata"].get("remainingItemCount", 0)
            if found == self.count:
                return
            await asyncio.sleep(_LOOK)
        raise NotMeasured(f"the API server has {found} Pods, not {self.count}")


@asynccontextmanager
async def pods(control_plane: RealControlPlane, client: Client) -> AsyncGenerator[Pods]:
    etcd = HTTPClient(control_plane.etcd)
    try:
        yield Pods(client, etcd)
    finally:
        await etcd.close()


def name_of(number: int) -> str:
    """Names of one length, so that one can stand in the place of another in encoded bytes."""
    return f"pod-{number:06}"


def copied(stored: bytes, uid: str, number: int) -> bytes:
    """The bytes of another Pod: those of the first, whose uid is given, with another name and uid."""
    first, name = name_of(0).encode(), name_of(number).encode()
    other = f"{uid[:-12]}{number:012x}".encode()
    return stored.replace(first, name).replace(uid.encode(), other)


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def _pod(name: str) -> JSONObject:
    """As one of a Deployment's on a cluster with the usual things in it."""
    container: JSONObject = {
        "name": "webserver",
        "image": "registry.example.com/team/webserver:1.23.0",
        "ports": [{"name": "http", "containerPort": 8080}],
        "env": [{"name": "GREETING", "value": "hello"}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/webserver"}],
    }
    labels = {"app.kubernetes.io/name": "webserver", "pod-template-hash": "6d4cf56db6"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": {NOTE: f"{name} as it was created"}},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "config", "configMap": {"name": "webserver"}}],
            "nodeName": "node-1",
        },
    }


_SINCE: Final = "2026-01-02T03:04:05Z"
_STATUS: Final[dict[str, Any]] = {
    "phase": "Running",
    "hostIP": "192.0.2.1",
    "podIP": "198.51.100.7",
    "startTime": _SINCE,
    "conditions": [
        {"type": kind, "status": "True", "lastTransitionTime": _SINCE}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ],
    "containerStatuses": [
        {
            "name": "webserver",
            "image": "registry.example.com/team/webserver:1.23.0",
            "imageID": "registry.example.com/team/webserver@sha256:" + "0123456789abcdef" * 4,
            "containerID": "containerd://" + "fedcba9876543210" * 4,
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": _SINCE}},
        }
    ],
}
