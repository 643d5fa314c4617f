"""An API moves from v1alpha1 to v1 while old and new clients write, and its operator is killed at any moment."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from integration.command import BackgroundCommand
from kubewright import PolicyRule
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import Service
from kubewright.cache import Informer
from kubewright.client import Unstructured
from kubewright.http.message import Request
from kubewright.testing import Cluster, eventually
from robustness.faults import Gate, between
from robustness.processes import ROOT
from robustness.webfarm import CRD, NEW, NEW_WRITERS, OLD, OLD_WRITERS, RULES, Clients, Releases
from webfarm_operator.api.v1.webserver import WebServer
from webfarm_operator.controller.children import deployment_for

pytestmark = [pytest.mark.timeout(1200)]

PROJECT = ROOT / "examples/webfarm-operator"
SEED = 20261123
MIGRATES = [
    PolicyRule(api_groups=["farm.my.domain"], resources=["webservers"], verbs=["list", "patch"]),
    PolicyRule(api_groups=["apiextensions.k8s.io"], resources=["customresourcedefinitions"], verbs=["get"]),
    PolicyRule(api_groups=["apiextensions.k8s.io"], resources=["customresourcedefinitions/status"], verbs=["patch"]),
]
"""The permissions that `kubewright migrate` needs."""


class World:
    """A control plane with the releases of the operator, and clients of both versions."""

    def __init__(self, cluster: Cluster, releases: Releases, clients: Clients) -> None:
        self.cluster = cluster
        self.releases = releases
        self.clients = clients
        self._running: list[asyncio.Task[None]] = []
        self._informers: list[Informer[Unstructured]] = []
        self._work: set[str] = set()

    def start(self, *versions: str) -> None:
        """Start clients of these versions."""
        of = {"v1alpha1": (OLD, OLD_WRITERS), "v1": (NEW, NEW_WRITERS)}
        for kind, writers in (of[each] for each in versions):
            self._work |= {f"list {kind.__api__.version}", *(each.name for each in writers)}
            self._running.append(asyncio.create_task(self.clients.read(kind, 0.5)))
            self._running += [asyncio.create_task(self.clients.write(each, 0.4)) for each in writers]

    def make(self) -> None:
        """Start the client that creates and deletes objects."""
        self._running.append(asyncio.create_task(self.clients.make(0.3)))

    async def worked(self, count: int) -> None:
        """Wait until every client has done so much more. Raises what one of them raised."""
        before = self.clients.done.copy()

        def check() -> None:
            self.raise_failures()
            missing = {each: self.clients.done[each] - before[each] for each in self._work}

            waiting = [each for each, done in missing.items() if done < count]
            assert not waiting, {each: self.clients.last_errors.get(each) for each in waiting}

        await eventually(check)

    def raise_failures(self) -> None:
        for each in self._running:
            if each.done():
                raise RuntimeError("a client failed") from each.exception()

    async def stop(self) -> None:
        """Wait until every client has finished its current request."""
        self.clients.stopping = True
        await asyncio.gather(*self._running)

    async def follow(self) -> None:
        """Start a watch of each version."""
        for kind in (OLD, NEW):
            informer = self.clients.follow(kind)
            informer.start()
            self._informers.append(informer)
            await informer.wait_synced(timeout=60)

    async def watches_are_right(self) -> None:
        """Assert that each watch has shown exactly what a list shows."""
        assert self.clients.wrong == []
        for informer in self._informers:
            listed = await self.cluster.client.list(informer.kind, namespace=self.clients.namespace)
            seen = {each.metadata.name: each["spec"] for each in informer.lister.list()}
            assert seen == {each.metadata.name: each["spec"] for each in listed}

    async def close(self) -> None:
        """Stop all clients."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for informer in self._informers:
            await informer.stop()

    async def stored_versions(self) -> list[str]:
        return (await self.cluster.client.get(CustomResourceDefinition, CRD)).status.stored_versions


@pytest_asyncio.fixture
async def world(
    cluster: Cluster, namespace: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[World]:
    """The first release, its objects, and clients."""
    is_long = request.node.get_closest_marker("long") is not None
    chance = random.Random(SEED)
    async with cluster.service_account(RULES, namespace=namespace) as account:
        releases = Releases(cluster, cluster.kubeconfig(account), tmp_path)
        clients = Clients(cluster.client, namespace, chance, *(names(12, 12) if is_long else names(8, 3)))
        world = World(cluster, releases, clients)
        try:
            await releases.remove()  # other tests have installed the CRD of another release
            await releases.install_first()
            await clients.create()
            await releases.start_first()
            yield world
        finally:
            await world.close()
            await releases.remove()


def names(written: int, idle: int) -> tuple[list[str], list[str]]:
    return [f"web-{number}" for number in range(written)], [f"idle-{number}" for number in range(idle)]


async def upgrade(world: World) -> None:
    """Replace the first release by the second, as a deploy does: first the CRD, then the operator."""
    await world.releases.install_both()
    await world.releases.kill()
    await world.releases.start_both()
    await eventually(world.releases.works)
    assert await world.stored_versions() == ["v1alpha1", "v1"]


class Migration:
    """`kubewright migrate` as a user runs it, again and again, until it succeeds."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._process: BackgroundCommand | None = None
        self.said: list[str] = []

    async def run(self) -> int:
        """Run it once. Returns its exit status."""
        self._process = await BackgroundCommand.start("migrate", folder=PROJECT, kubeconfig=self._kubeconfig)
        self.said.append((await self._process.stdout.read()).decode())
        return await self._process.wait()

    def strike(self) -> None:
        """Kill it, without waiting for its end."""
        if self._process is not None:
            self._process.kill()


class AtWrite:
    """Counts the writes of a migration, and kills at one of them."""

    def __init__(self, gate: Gate, strike: Callable[[], None]) -> None:
        self.at = 0
        self.writes = 0
        self._strike = strike
        gate.answer = self._see

    def arm(self, at: int) -> None:
        """Kill at the write of this number, counted from now on."""
        self.at, self.writes = at, 0

    def _see(self, request: Request) -> None:
        if request.method == "PATCH":
            self.writes += 1
            if self.writes == self.at:
                self._strike()


@pytest.mark.parametrize(
    ("victim", "every"),
    [
        ("operator", 24),
        pytest.param("operator", 1, marks=pytest.mark.long),
        pytest.param("migration", 1, marks=pytest.mark.long),
    ],
)
async def test_a_migration_loses_nothing_although_a_process_is_killed_at_each_write(
    world: World, victim: str, every: int
) -> None:
    await grow_up(world)
    async with (
        world.cluster.service_account(MIGRATES, namespace=world.clients.namespace) as account,
        between(account) as (through, _, gate),
    ):
        migration = Migration(world.cluster.kubeconfig(through))
        strikes = AtWrite(gate, world.releases.strike if victim == "operator" else migration.strike)
        at, status = 1, 1
        while status != 0:
            await world.releases.ensure_both()
            strikes.arm(at)
            status = await migration.run()
            assert strikes.writes or status == 0, migration.said[-1]
            world.raise_failures()
            at += every if strikes.writes >= at else 0
    await check_migrated(world)


@pytest.mark.long
async def test_a_migration_loses_nothing_although_the_operator_is_killed_at_random(world: World) -> None:
    await grow_up(world)
    killing = asyncio.create_task(kill_at_random(world.releases, world.clients.chance, times=10))
    migration = Migration(world.cluster.kubeconfig())
    while await migration.run() != 0:
        world.raise_failures()
    await killing
    await check_migrated(world)


async def kill_at_random(releases: Releases, chance: random.Random, times: int) -> None:
    for _ in range(times):
        await eventually(releases.works)
        await asyncio.sleep(chance.uniform(0.0, 3.0))
        await releases.kill()
        await asyncio.sleep(chance.uniform(0.0, 0.5))
        await releases.start_both()


async def grow_up(world: World) -> None:
    """Run clients of v1alpha1, upgrade the operator meanwhile, and run clients of both versions."""
    world.start("v1alpha1")
    await eventually(world.releases.works)
    await world.worked(2)
    await upgrade(world)
    world.start("v1")
    world.make()
    await world.follow()
    await world.worked(2)


async def check_migrated(world: World) -> None:
    """Stop the clients, and assert that nothing was lost; then drop v1alpha1, and assert it again."""
    await world.releases.ensure_both()
    await world.worked(2)
    await world.stop()
    assert await world.stored_versions() == ["v1"]
    await eventually(world.watches_are_right)
    for kind in (OLD, NEW):
        await world.clients.check_all(kind)
    for name in world.clients.names:
        world.clients.check_owners(await world.cluster.client.get(NEW, name, namespace=world.clients.namespace))
    await eventually(children_are_right, world)

    await world.releases.install_last()
    await eventually(world.clients.check_all, NEW)
    await eventually(children_are_right, world)
    assert '"Traceback' not in "".join(world.releases.logs())


async def children_are_right(world: World) -> None:
    """Assert that each WebServer has the children that its v1 describes, and is their owner in v1."""
    client, namespace = world.cluster.client, world.clients.namespace
    webs = {each.metadata.name: each for each in await client.list(WebServer, namespace=namespace)}
    deployments = {each.metadata.name: each for each in await client.list(Deployment, namespace=namespace)}
    services = {each.metadata.name: each for each in await client.list(Service, namespace=namespace)}
    wanted = set(webs) - set(world.clients.idle)  # the operator pauses for these
    assert set(deployments) == set(services) == wanted
    for name in wanted:
        web, deployment, service = webs[name], deployments[name], services[name]
        for child in (deployment, service):
            owners = [(each.api_version, each.kind, each.uid) for each in child.metadata.owner_references]
            assert owners == [("farm.my.domain/v1", "WebServer", web.metadata.uid)]
        assert described(deployment) == described(deployment_for(web))
        [port] = service.spec.ports
        assert (service.spec.type, port.port) == (web.spec.service.type, web.spec.service.port)
        assert web.status.observed_generation == web.metadata.generation


def described(deployment: Deployment) -> tuple[int | None, str | None, dict[str, str], dict[str, str] | None]:
    [container] = deployment.spec.template.spec.containers
    limits = container.resources.limits if container.resources is not None else None
    env = {each.name: each.value or "" for each in container.env}
    return deployment.spec.replicas, container.image, env, limits
