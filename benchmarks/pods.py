"""Pods on a real API server, 4 KB of JSON each, as many as asked for; and what a cache must know of them.

They are as on a cluster: of many workloads, each with its own image, labels and settings, and of each workload a number
of replicas, each with its own name, uid, node, address and container. The first of a workload is created through the
API server, so that it is admitted, defaulted, owned and encoded as any other. The others are copies of its bytes in
etcd, with an identity of their own: a hundred thousand take seconds, not minutes.
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

from benchmarks.hands import share
from benchmarks.report import NotMeasured
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
"""Pods of a workload; their copies are one transaction of etcd, which takes 128."""
_AT_ONCE: Final = 8
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
        sizes: list[int] = []
        workloads = (range(first, min(first + _REPLICAS, count)) for first in range(0, count, _REPLICAS))
        await share((self._workload(numbers, sizes) for numbers in workloads), _AT_ONCE)
        self._names = [name_of(number) for number in range(count)]
        await self._served()
        return sum(sizes) // len(sizes)

    async def _workload(self, numbers: range, sizes: list[int]) -> None:
        """The Pods of one workload; notes the bytes of its first as JSON."""
        first = Identity.of(numbers[0])
        wanted = _pod(first)
        created = msgspec.json.decode(await self._write("POST", _COLLECTION, wanted), type=JSONObject)
        path = f"{_COLLECTION}/{first.name}/status"
        sizes.append(len(await self._write("PUT", path, created | {"status": wanted["status"]})))
        found = await self._store("range", {"key": _base64(_KEYS + first.name)})
        stored = b64decode(found["kvs"][0]["value"])
        known = replace(first, uid=created["metadata"]["uid"])
        others = [Identity.of(number) for number in numbers[1:]]
        await self._put({each.name: copied(stored, known, each) for each in others})

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


@dataclass(frozen=True)
class Identity:
    """What sets a Pod apart from the others of its workload.

    Each part has the same length in all Pods, so that one can stand in the place of another in encoded bytes.
    """

    name: str
    uid: str
    node: str
    ip: str
    container: str

    @classmethod
    def of(cls, number: int) -> Identity:
        """That of a Pod, the same each time."""
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
    """The bytes of another Pod: those of `one`, as the other."""
    for old, new in zip(astuple(one), astuple(other), strict=True):
        stored = stored.replace(old.encode(), new.encode())
    return stored


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def _pod(who: Identity) -> JSONObject:
    """The first Pod of a workload, with the status that its node would give it."""
    chance = random.Random(who.name)

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
        "metadata": {"name": who.name, "labels": labels, "annotations": {NOTE: f"{who.name} as it was created"}},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "config", "configMap": {"name": app}}],
            "nodeName": who.node,
        },
        "status": {
            "phase": "Running",
            "podIP": who.ip,
            "startTime": since,
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": since} for kind in conditions],
            "containerStatuses": [
                {
                    "name": app,
                    "image": f"{image}:{version}",
                    "imageID": f"{image}@sha256:{chance.getrandbits(256):064x}",
                    "containerID": f"containerd://{who.container}",
                    "ready": True,
                    "started": True,
                    "restartCount": chance.randrange(10),
                    "state": {"running": {"startedAt": since}},
                }
            ],
        },
    }
