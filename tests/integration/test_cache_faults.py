"""Whatever breaks between the cache and its server, the copy ends up equal, and handlers were told each step."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable

import pytest

from kubewright._runtime.clock import SystemClock
from kubewright.apis.core.v1 import ConfigMap
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.cache import Cache, CachedClient, Event, Informer, ObjectKey, Scope
from kubewright.client import Client, MergePatch
from kubewright.client._transport import HTTPTransport, Transport
from kubewright.http.message import Body, Request, Response
from kubewright.machinery.errors import ConnectionFailed, NotFound
from kubewright.testing._cluster import Cluster
from kubewright.testing._waiting import eventually

GONE = b'{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"too old resource version"}'
BROKEN = b'{"kind":"Status","status":"Failure","code":500,"reason":"InternalError","message":"no leader"}'
BUSY = b'{"kind":"Status","status":"Failure","code":503,"reason":"ServiceUnavailable","message":"try later"}'
UNKNOWN = b'{"kind":"Status","status":"Failure","code":422,"reason":"Invalid","message":"sendInitialEvents: Forbidden"}'


class Hurried(SystemClock):
    """Waits a hundredth of what it is told to."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 100)


class Unreliable:
    """A transport that breaks reads, at random but in the same way each time, for as long as it is told to."""

    def __init__(self, inner: Transport, seed: int, *, streams_lists: bool) -> None:
        self._inner = inner
        self._random = random.Random(seed)
        self._streams_lists = streams_lists
        self.broken = True
        self.faults = 0

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        if not self._streams_lists and "sendInitialEvents" in request.target:
            return Response(422, {}, UNKNOWN)
        if self._strikes(0.3) and request.method == "GET":
            return self._answer_badly(stream)
        response = await self._inner.send(request, timeout=timeout, stream=stream)
        if stream:
            response.body = self._interrupted(response, response.body)
        return response

    async def close(self) -> None:
        await self._inner.close()

    def _strikes(self, probability: float) -> bool:
        strikes = self.broken and self._random.random() < probability
        self.faults += strikes
        return strikes

    def _answer_badly(self, stream: bool) -> Response:
        fault = self._random.randrange(3)
        if fault == 0:
            raise ConnectionFailed("connection refused")
        return Response(410, {}, GONE) if fault == 1 and stream else Response(503, {}, BUSY)

    async def _interrupted(self, response: Response, body: Body) -> AsyncIterator[bytes]:
        """The chunks of a watch, until something happens to it."""
        chunks = _one(body) if isinstance(body, bytes) else body
        try:
            async for chunk in chunks:
                if not self._strikes(0.2):
                    yield chunk
                    continue
                fault = self._random.randrange(4)
                if fault == 0:
                    yield chunk[: len(chunk) // 2]
                if fault <= 1:
                    raise ConnectionFailed("connection reset by peer")
                if fault == 2:
                    yield chunk
                    yield b'{"type":"ERROR","object":%s}\n' % self._random.choice((GONE, BROKEN))
                return
        finally:
            await Response(200, body=body).aclose()


async def _one(chunk: bytes) -> AsyncIterator[bytes]:
    yield chunk


class Mirror:
    """What one knows who believes the handlers alone."""

    def __init__(self, informer: Informer[ConfigMap]) -> None:
        self.versions: dict[ObjectKey, int] = {}
        self.surprises: list[str] = []
        informer.add_handler(on_add=self._add, on_update=self._update, on_delete=self._delete)

    def _expect(self, right: bool, event: Event[ConfigMap]) -> None:
        if not right:
            self.surprises.append(f"{event.type} {event.key}: {event.old} -> {event.new}")

    def _add(self, event: Event[ConfigMap]) -> None:
        self._expect(event.key not in self.versions, event)
        assert event.new is not None
        self.versions[event.key] = event.new.resource_version

    def _update(self, event: Event[ConfigMap]) -> None:
        assert event.new is not None
        self._expect(self.versions.get(event.key, 0) < event.new.resource_version, event)
        self.versions[event.key] = event.new.resource_version

    def _delete(self, event: Event[ConfigMap]) -> None:
        self._expect(self.versions.pop(event.key, None) is not None, event)


@pytest.fixture
async def unreliable(cluster: Cluster) -> AsyncIterator[Callable[[int, bool], tuple[Unreliable, Client]]]:
    clients: list[Client] = []

    def make(seed: int, streams_lists: bool) -> tuple[Unreliable, Client]:
        transport = Unreliable(HTTPTransport(cluster.config), seed, streams_lists=streams_lists)
        clients.append(Client(transport=transport, clock=Hurried()))
        return transport, clients[-1]

    yield make
    for client in clients:
        await client.close()


def config_map(namespace: str, name: str, value: int = 0) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data={"v": str(value)})


@pytest.mark.parametrize("streams_lists", [True, False], ids=["lists streamed", "lists in pages"])
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_the_copy_ends_up_equal(
    cluster: Cluster,
    namespace: str,
    unreliable: Callable[[int, bool], tuple[Unreliable, Client]],
    seed: int,
    streams_lists: bool,
) -> None:
    transport, client = unreliable(seed, streams_lists)
    informer = Informer(client, ConfigMap, namespaces=namespace)
    mirror = Mirror(informer)
    informer.start()
    chance = random.Random(seed)
    for number in range(150):
        name = f"c{chance.randrange(20)}"
        if chance.random() < 0.3:
            try:
                await cluster.client.delete(ConfigMap, name, namespace=namespace)
            except NotFound:
                continue
        else:
            await cluster.client.apply(config_map(namespace, name, number))
        if chance.random() < 0.2:
            await asyncio.sleep(0.01)
    assert transport.faults > 0, "nothing has broken: the test shows nothing"
    transport.broken = False

    async def equal() -> None:
        live = await cluster.client.list(ConfigMap, namespace=namespace)
        versions = {ObjectKey(namespace, each.metadata.name): int(each.metadata.resource_version) for each in live}
        assert {entry.key: entry.resource_version for entry in informer.lister.entries()} == versions
        assert mirror.versions == versions

    await eventually(equal)
    assert mirror.surprises == []
    await informer.stop()


async def test_reads_see_own_writes_over_a_watch_that_keeps_breaking(
    namespace: str, unreliable: Callable[[int, bool], tuple[Unreliable, Client]]
) -> None:
    transport, client = unreliable(7, True)
    cache = Cache(client, scopes={ConfigMap: Scope(namespaces=namespace)})
    cache.start()
    await cache.informer(ConfigMap).wait_synced(30)
    cached = CachedClient(client, cache)
    for number in range(60):
        await cached.apply(config_map(namespace, "a", number))
        obj = await cached.get(ConfigMap, "a", namespace=namespace)
        assert obj.data["v"] == str(number)
        await cached.patch(obj, MergePatch({"data": {"w": str(number)}}))
        found = {each.metadata.name: each.data for each in await cached.list(ConfigMap)}
        assert found["a"] == {"v": str(number), "w": str(number)}
    assert transport.faults > 0
    await cache.stop()
