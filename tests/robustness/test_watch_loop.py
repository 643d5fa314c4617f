"""Four ends of a watch that other toolkits do not survive: no event is missed, and the server is not flooded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from kubewright import Client, Config, ObjectMeta
from kubewright.apis.core.v1 import ConfigMap
from kubewright.cache import Event, Informer
from kubewright.client import MergePatch
from kubewright.client._transport import HTTPTransport, Transport
from kubewright.http.message import Request, Response
from kubewright.models import PolicyRule
from kubewright.testing import Cluster, eventually, failure
from robustness.faults import Gate, Line, between

LABELS = {"followed": "yes"}
RULE = PolicyRule(api_groups=[""], resources=["configmaps"], verbs=["list", "watch"])


class Impatient(HTTPTransport):
    """Reconnects after three seconds of silence."""

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        return await super().send(request, timeout=3.0 if stream else timeout, stream=stream)


class Follower:
    """A copy of ConfigMaps that is built from the events of an informer only."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.informer = Informer(client, ConfigMap, namespaces=namespace, labels=LABELS)
        self.colors: dict[str, str | None] = {}
        self.informer.add_handler(on_add=self._note, on_update=self._note, on_delete=self._note)

    def _note(self, event: Event[ConfigMap]) -> None:
        if event.new is None:
            del self.colors[event.key.name]
        else:
            self.colors[event.key.name] = event.new.decode().data["color"]


class World:
    """ConfigMaps, changed over a connection without faults."""

    def __init__(self, cluster: Cluster, namespace: str, follower: Follower) -> None:
        self._client = cluster.client
        self._namespace = namespace
        self._follower = follower
        self.colors: dict[str, str] = {}

    async def create(self, name: str) -> None:
        metadata = ObjectMeta(name=name, namespace=self._namespace, labels=LABELS)
        await self._client.create(ConfigMap(metadata=metadata, data={"color": "red"}))
        self.colors[name] = "red"

    async def shake(self) -> None:
        """Delete, change and create a ConfigMap."""
        name, other, *_ = self.colors
        await self._client.delete(ConfigMap, name, namespace=self._namespace)
        del self.colors[name]
        patch = MergePatch({"data": {"color": f"{self.colors[other]}er"}})
        await self._client.patch(ConfigMap, patch, name=other, namespace=self._namespace)
        self.colors[other] += "er"
        await self.create(f"{name}-again")

    async def is_known(self) -> None:
        assert self._follower.colors == self.colors


@asynccontextmanager
async def followed(
    cluster: Cluster, namespace: str, transport: Callable[[Config], Transport] = HTTPTransport
) -> AsyncIterator[tuple[World, Follower, Line, Gate]]:
    async with (
        cluster.service_account([RULE], namespace=namespace) as account,
        between(account) as (far, line, gate),
        Client(transport=transport(far)) as client,
    ):
        follower = Follower(client, namespace)
        world = World(cluster, namespace, follower)
        for number in range(5):
            await world.create(f"c-{number}")
        follower.informer.start()
        await eventually(world.is_known)
        yield world, follower, line, gate
        await eventually(world.is_known)
        await world.shake()
        await eventually(world.is_known)
        await follower.informer.stop()


def resumes(request: Request) -> bool:
    """Whether a request continues an earlier watch."""
    return "resourceVersion=" in request.query and "watch=true" in request.query


async def test_a_watch_from_an_expired_version_starts_over(cluster: Cluster, namespace: str) -> None:
    async with followed(cluster, namespace) as (world, _, line, gate):
        line.go_down()
        await world.shake()
        gate.answer = lambda request: failure(410, "Expired") if resumes(request) else None
        before = gate.requests
        line.come_up()
        await eventually(world.is_known)
        assert gate.requests <= before + 4, "the informer lists again and does not retry the watch"
        gate.answer = lambda _: None


async def test_a_watch_survives_a_series_of_503_responses(cluster: Cluster, namespace: str) -> None:
    async with followed(cluster, namespace) as (world, follower, line, gate):
        gate.answer = lambda _: failure(503, "ServiceUnavailable")
        before = gate.requests
        line.cut()
        await world.shake()
        await asyncio.sleep(3)
        assert 1 <= gate.requests - before <= 8
        assert follower.informer.last_error is not None
        gate.answer = lambda _: None


@pytest.mark.parametrize(
    ("code", "reason", "times"),
    [(500, "InternalError", 2), (504, "Timeout", 2), (403, "Forbidden", 2), (410, "Gone", 1)],
)
async def test_a_watch_survives_an_error_in_the_stream(
    cluster: Cluster, namespace: str, code: int, reason: str, times: int
) -> None:
    async with followed(cluster, namespace) as (world, _, line, gate):
        errors = [b'{"type":"ERROR","object":%s}\n' % await failure(code, reason).read()] * times
        gate.answer = lambda request: Response(200, {}, errors.pop()) if errors and resumes(request) else None
        line.cut()
        await world.shake()
        await eventually(world.is_known)
        assert not errors


async def test_a_silent_watch_is_replaced(cluster: Cluster, namespace: str) -> None:
    async with followed(cluster, namespace, Impatient) as (world, follower, line, _):

        async def given_up() -> None:
            assert "silent" in str(follower.informer.last_error)

        line.fall_silent()
        await world.shake()
        await eventually(given_up)
        assert follower.colors != world.colors
        line.speak()
