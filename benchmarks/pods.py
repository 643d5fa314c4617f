"""Pods on a real API server, 4 KB of JSON each, and what a cache must know about them.

The Pods resemble those of a cluster. They belong to many workloads, each with its own image, labels and settings. Each
workload has several replicas, each with its own name, uid, node, address and container. The first Pod of a workload is
created through the API server, so it is admitted, defaulted, owned and encoded like any other. The others are copies of
its bytes in etcd, with their own identity: 100,000 Pods take seconds, not minutes.
"""

from __future__ import annotations

import asyncio
import random
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass, replace
from typing import Final, TypeAlias
from uuid import UUID

import msgspec

from benchmarks.report import NotMeasured
from benchmarks.workers import run_concurrently
from kubewright.apis.core.v1 import Pod
from kubewright.client._client import Client
from kubewright.client._patch import MergePatch
from kubewright.client._rest import Query
from kubewright.http.client import HTTPClient
from kubewright.http.message import Request
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.real import RealControlPlane

NAMESPACE: Final = "default"
NOTE: Final = "bench.kubewright.dev/note"

_COLLECTION: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_KEYS: Final = f"/registry/pods/{NAMESPACE}/"
_REPLICAS: Final = 20
"""Pods per workload. Their copies are one transaction of etcd, which accepts 128 operations."""
_AT_ONCE: Final = 8
_CHANGED: Final = 20
_SERVED_WITHIN: Final = 120.0
_LOOK: Final = 0.1

Known: TypeAlias = Mapping[str, Sequence[str]]
"""The resource version and the note of each Pod."""


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
        """Create `count` Pods. Returns the size of one in bytes of JSON. Raises NotMeasured if they do not appear."""
        sizes: list[int] = []
        workloads = (range(first, min(first + _REPLICAS, count)) for first in range(0, count, _REPLICAS))
        await run_concurrently((self._workload(numbers, sizes) for numbers in workloads), _AT_ONCE)
        self._names = [name_of(number) for number in range(count)]
        await self._served()
        return sum(sizes) // len(sizes)

    async def _workload(self, numbers: range, sizes: list[int]) -> None:
        """Create the Pods of one workload, and add the size of its first as JSON to `sizes`."""
        first = Identity.of(numbers[0])
        wanted = pod(first)
        created = msgspec.json.decode(await self._write("POST", _COLLECTION, wanted), type=JSONObject)
        path = f"{_COLLECTION}/{first.name}/status"
        sizes.append(len(await self._write("PUT", path, created | {"status": wanted["status"]})))
        found = await self._store("range", {"key": _base64(_KEYS + first.name)})
        stored = b64decode(found["kvs"][0]["value"])
        known = replace(first, uid=created["metadata"]["uid"])
        others = [Identity.of(number) for number in numbers[1:]]
        await self._put({each.name: copied(stored, known, each) for each in others})

    async def change_some(self) -> None:
        """Update some Pods and delete some others, at random."""
        for name in random.sample(self._names, _CHANGED):
            patch = MergePatch({"metadata": {"annotations": {NOTE: f"{name} was changed"}}})
            await self._client.patch(Pod, patch, name=name, namespace=NAMESPACE)
        for name in random.sample(self._names, _CHANGED):
            await self._client.delete(Pod, name, namespace=NAMESPACE, grace_period=0)
            self._names.remove(name)

    async def sample(self, size: int) -> Known:
        """Return what a cache must know about some random Pods."""
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
        """Call etcd through its JSON gateway."""
        response = await self._etcd.send(Request("POST", f"/v3/kv/{call}", {}, msgspec.json.encode(document)))
        answer = await response.read()
        if response.status != 200:
            raise NotMeasured(f"etcd rejected {call}: {answer.decode(errors='replace')}")
        return msgspec.json.decode(answer, type=JSONObject)

    async def _served(self) -> None:
        """Wait until the API server returns all Pods."""
        one: Query = {"limit": "1"}
        found = 0
        for _ in range(int(_SERVED_WITHIN / _LOOK)):
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


@dataclass(frozen=True)
class Identity:
    """What distinguishes a Pod from the others of its workload.

    Each part has the same length in all Pods, so one can replace another in encoded bytes.
    """

    name: str
    uid: str
    node: str
    ip: str
    container: str

    @classmethod
    def of(cls, number: int) -> Identity:
        """Return the identity of a Pod, the same each time."""
        chance = random.Random(number)
        octets = [str(chance.randrange(100, 256)) for _ in range(3)]
        return cls(
            name=name_of(number),
            uid=str(UUID(int=chance.getrandbits(128), version=4)),
            node=f"node-{chance.randrange(100, 1000)}.example.com",
            ip=".".join(("10", *octets)),
            container=f"{chance.getrandbits(256):064x}",
        )


def name_of(number: int) -> str:
    return f"pod-{number:06}"


def copied(stored: bytes, one: Identity, other: Identity) -> bytes:
    """Return the bytes of `one` with the identity of `other`."""
    for old, new in zip(astuple(one), astuple(other), strict=True):
        stored = stored.replace(old.encode(), new.encode())
    return stored


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def pod(identity: Identity) -> JSONObject:
    """Return the first Pod of a workload, with the status that its node would report."""
    chance = random.Random(identity.name)

    def word() -> str:
        return f"{chance.getrandbits(40):010x}"

    app, version = f"app-{word()}", f"1.{chance.randrange(100)}.{chance.randrange(100)}"
    image = f"registry.example.com/{word()}/{app}"
    labels = {"app.kubernetes.io/name": app, "app.kubernetes.io/version": version, "pod-template-hash": word()}
    container: JSONObject = {
        "name": app,
        "image": f"{image}:{version}",
        "ports": [{"name": "http", "containerPort": chance.randrange(1024, 65536)}],
        "env": [{"name": word().upper(), "value": f"{word()} {word()}"} for _ in range(2)],
        "resources": {"requests": {"cpu": f"{chance.randrange(1, 1000)}m", "memory": f"{chance.randrange(16, 512)}Mi"}},
        "volumeMounts": [{"name": "config", "mountPath": f"/etc/{app}"}],
    }
    since = f"2026-01-{chance.randrange(1, 29):02}T03:04:{chance.randrange(60):02}Z"
    conditions = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": identity.name,
            "labels": labels,
            "annotations": {NOTE: f"{identity.name} as it was created"},
        },
        "spec": {
            "containers": [container],
            "volumes": [{"name": "config", "configMap": {"name": app}}],
            "nodeName": identity.node,
        },
        "status": {
            "phase": "Running",
            "podIP": identity.ip,
            "startTime": since,
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": since} for kind in conditions],
            "containerStatuses": [
                {
                    "name": app,
                    "image": f"{image}:{version}",
                    "imageID": f"{image}@sha256:{chance.getrandbits(256):064x}",
                    "containerID": f"containerd://{identity.container}",
                    "ready": True,
                    "started": True,
                    "restartCount": chance.randrange(10),
                    "state": {"running": {"startedAt": since}},
                }
            ],
        },
    }
