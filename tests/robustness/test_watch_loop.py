"""Four ways in which a watch ends that other tool kits do not survive: nothing is missed, and no server is stormed."""

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
    """Bears no silence of more than three seconds."""

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        return await super().send(request, timeout=3.0 if stream else timeout, stream=stream)


class Follower:
    """Believes what an informer tells it of some ConfigMaps, and nothing else."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.informer = Informer(client, ConfigMap, namespaces=namespace, labels=LABELS)
        self.colours: dict[str, str | None] = {}
        self.informer.add_handler(on_add=self._note, on_update=self._note, on_delete=self._note)

    def _note(self, event: Event[ConfigMap]) -> None:
        if event.new is None:
            del self.colours[event.key.name]
        else:
            self.colours[event.key.name] = event.new.decode().data["colour"]


class World:
    """ConfigMaps, changed by who has a better line than the follower."""

    def __init__(self, cluster: Cluster, namespace: str, follower: Follower) -> None:
        self._client = cluster.client
        self._namespace = namespace
        self._follower = follower
        self.colours: dict[str, str] = {}

    async def create(self, name: str) -> None:
        metadata = ObjectMeta(name=name, namespace=self._namespace, labels=LABELS)
        await self._client.create(ConfigMap(metadata=metadata, data={"colour": "red"}))
        self.colours[name] = "red"

    async def shake(self) -> None:
        """Delete one, change one, create one."""
        name, other, *_ = self.colours
        await self._client.delete(ConfigMap, name, namespace=self._namespace)
        del self.colours[name]
        patch = MergePatch({"data": {"colour": f"{self.colours[other]}er"}})
        await self._client.patch(ConfigMap, patch, name=other, namespace=self._namespace)
        self.colours[other] += "er"
        await self.create(f"{name}-again")

    async def is_known(self) -> None:
        assert self._follower.colours == self.colours


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
    """Whether a watch is to go on from where one has ended."""
    return "resourceVersion=" in request.query and "watch=true" in request.query


async def test_a_version_that_is_too_old_to_go_on_from(cluster: Cluster, namespace: str) -> None:
    async with followed(cluster, namespace) as (world, _, line, gate):
        line.go_down()
        await world.shake()
        gate.answer = lambda request: failure(410, "Expired") if resumes(request) else None
        before = gate.requests
        line.come_up()
        await eventually(world.is_known)
        assert gate.requests <= before + 4, "it lists anew and does not insist"
        gate.answer = lambda _: None


async def test_a_storm_of_503(cluster: Cluster, namespace: str) -> None:
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
async def test_an_error_in_the_stream(cluster: Cluster, namespace: str, code: int, reason: str, times: int) -> None:
    async with followed(cluster, namespace) as (world, _, line, gate):
        errors = [b'{"type":"ERROR","object":%s}\n' % await failure(code, reason).read()] * times
        gate.answer = lambda request: Response(200, {}, errors.pop()) if errors and resumes(request) else None
        line.cut()
        await world.shake()
        await eventually(world.is_known)
        assert not errors


async def test_a_stream_that_goes_silent(cluster: Cluster, namespace: str) -> None:
    async with followed(cluster, namespace, Impatient) as (world, follower, line, _):

        async def given_up() -> None:
            assert "silent" in str(follower.informer.last_error)

        line.fall_silent()
        await world.shake()
        await eventually(given_up)
        assert follower.colours != world.colours
        line.speak()
