"""All example operators at once, in one namespace, with all faults at the same time.

Each operator is a process with its own ServiceAccount and permissions. A process that exits is restarted, as by a
kubelet.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from integration.command import NO_SERVERS
from kubewright import Client, NotFound, ObjectMeta
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import ConfigMap, PersistentVolumeClaim, Pod, Service
from kubewright.client import JSONPatch, MergePatch
from kubewright.http.message import Request, Response
from kubewright.models import Object
from kubewright.testing import Cluster
from robustness.examples import EXAMPLES, Example, World
from robustness.faults import READS, WRITES, Gate, Line, between, failing
from robustness.processes import OperatorProcess

pytestmark = pytest.mark.timeout(1800)


class Storm(NamedTuple):
    """The size of a storm: how many objects, changes and faults."""

    objects: int
    """Of each kind."""
    deleted: int
    """Further objects of each kind, which are deleted during the faults."""
    changes: int
    damages: int
    """The number of objects whose five children are damaged."""
    kills: int


STORMS = [
    pytest.param(Storm(objects=10, deleted=10, changes=20, damages=5, kills=4), id="small"),
    pytest.param(Storm(objects=20, deleted=10, changes=40, damages=10, kills=4), id="medium", marks=pytest.mark.long),
    pytest.param(Storm(objects=100, deleted=10, changes=100, damages=20, kills=8), id="large", marks=pytest.mark.long),
]
SHARE = 0.1
"""The ratio of requests that fail, half of them after the server carried them out."""
CONVERGED_WITHIN = 240.0
SILENCE = 11.0
"""Seconds in which an operator would finish its writes. The WebServer operator polls every ten seconds."""
SEED = 20261122

NOT_COUNTED = ("/events", "/selfsubjectaccessreviews")
"""A recurring Event is written once a minute."""


@pytest.mark.parametrize("size", STORMS)
async def test_all_examples_converge_after_simultaneous_faults(
    cluster: Cluster, namespace: str, tmp_path: Path, size: Storm
) -> None:
    chance = random.Random(SEED)
    crowd = Crowd(cluster.client, namespace, size, chance)
    await cluster.install(*(kind for example in EXAMPLES for kind in example.kinds))
    try:
        async with at_work(cluster, namespace, tmp_path) as (operators, line, gate):
            storm(gate, chance)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(crowd.comes_and_suffers())
                tasks.create_task(kill_at_random(operators, line, size.kills, chance))
            writes = calm(gate, line)
            await wait_converged(cluster.client, namespace, size)
            await wait_idle(writes)
            is_right(await World.of(cluster.client, namespace), size)
            for each in operators:
                assert "Traceback" not in each.log, each.log
    finally:
        await crowd.goes()


class Crowd:
    """The objects of all examples, and changes to them and their dependents."""

    def __init__(self, client: Client, namespace: str, size: Storm, chance: random.Random) -> None:
        self._client = client
        self._namespace = namespace
        self._size = size
        self._chance = chance
        self._deleted = 0

    async def comes_and_suffers(self) -> None:
        for start in range(0, self._size.objects + self._size.deleted, 10):
            await asyncio.gather(*(self._create(number) for number in range(start, start + 10)))
        size = self._size
        steps = [self._change] * size.changes + [self._damage] * size.damages + [self._delete] * size.deleted
        self._chance.shuffle(steps)
        for step in steps:
            await step()

    async def goes(self) -> None:
        """Node ports must be unique in the cluster."""
        for example in EXAMPLES:
            for kind in example.kinds:
                await self._client.delete_all_of(kind, namespace=self._namespace)
        await self._client.delete_all_of(Deployment, namespace=self._namespace)
        await self._client.delete_all_of(Service, namespace=self._namespace)

    async def _create(self, number: int) -> None:
        for example in EXAMPLES:
            for kind, spec_of in example.kinds.items():
                metadata = ObjectMeta(name=name_of(kind, number), namespace=self._namespace)
                await self._client.create(kind(metadata=metadata, spec=spec_of(number)))

    async def _change(self) -> None:
        example = self._chance.choice([each for each in EXAMPLES if each.change is not None])
        assert example.change is not None
        kind, number = next(iter(example.kinds)), self._chance.randrange(self._size.objects)
        change = MergePatch({"spec": example.change(self._chance.randrange(100))})
        await self._client.patch(kind, change, name=name_of(kind, number), namespace=self._namespace)

    async def _delete(self) -> None:
        """Create one object of each kind."""
        number = self._size.objects + self._deleted
        self._deleted += 1
        for example in EXAMPLES:
            for kind in example.kinds:
                await self._client.delete(kind, name_of(kind, number), namespace=self._namespace)

    async def _damage(self) -> None:
        """Delete children, or change them."""
        kind = self._chance.choice([Deployment, Service, ConfigMap, PersistentVolumeClaim, Pod])
        children = [each for each in await self._client.list(kind, namespace=self._namespace) if is_child(each)]
        for child in self._chance.sample(children, min(5, len(children))):
            with suppress(NotFound):  # it is already deleted
                if kind in EDITS and self._chance.random() < 0.5:
                    await self._client.patch(child, EDITS[kind])
                else:
                    await self._client.delete(child)


EDITS: dict[type[Object], JSONPatch | MergePatch] = {
    Deployment: JSONPatch(
        [
            {"op": "replace", "path": "/spec/replicas", "value": 4},
            {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "wrong"},
        ]
    ),
    Service: MergePatch({"spec": {"selector": {"app": "wrong"}}}),
    ConfigMap: MergePatch({"data": {"index.html": "wrong"}}),
}


def is_child(obj: Object) -> bool:
    return bool(obj.metadata.owner_references) and obj.metadata.deletion_timestamp is None


def name_of(kind: type[Object], number: int) -> str:
    return f"{kind.__api__.singular}-{number}"


class Supervised:
    """The process of an operator, restarted whenever it exits."""

    def __init__(self, example: Example, kubeconfig: Path, log: Path) -> None:
        self._example = example
        self._kubeconfig = kubeconfig
        self._log = log
        self._process: OperatorProcess | None = None

    async def run(self) -> None:
        try:
            while True:
                flags = NO_SERVERS if self._example.has_manager else ()
                self._process = await OperatorProcess.start(self._example.module, self._kubeconfig, self._log, flags)
                await self._process.ended()
        finally:
            await self.kill()

    async def kill(self) -> None:
        if self._process is not None and self._process.status is None:
            await self._process.kill()

    @property
    def log(self) -> str:
        return self._log.read_text()


@asynccontextmanager
async def at_work(cluster: Cluster, namespace: str, folder: Path) -> AsyncIterator[tuple[list[Supervised], Line, Gate]]:
    """All operators, behind one line and one gate."""
    async with AsyncExitStack() as stack:
        far, line, gate = await stack.enter_async_context(between(cluster.config))
        operators: list[Supervised] = []
        for example in EXAMPLES:
            account = await stack.enter_async_context(cluster.service_account(example.rules, namespace=namespace))
            kubeconfig = cluster.kubeconfig(replace(account, server=far.server, ca=None))
            operators.append(Supervised(example, kubeconfig, folder / f"{example.module}.log"))
        running = [asyncio.create_task(each.run()) for each in operators]
        try:
            yield operators, line, gate
            assert not any(task.done() for task in running), running
        finally:
            for task in running:
                task.cancel()
            await asyncio.wait(running)


def storm(gate: Gate, chance: random.Random) -> None:
    """Make requests fail or hang, and delay watches."""
    answers = [
        failing(500, "InternalError"),
        failing(503, "ServiceUnavailable"),
        failing(429, "TooManyRequests", {"retry-after": "1"}),
        failing(409, "Conflict", methods=WRITES - {"POST"}),
        failing(410, "Expired", methods=READS),
    ]

    def fails(request: Request) -> bool:
        """Exclude the check at startup whether a kind is served: servers do not answer it with 410."""
        return "limit=1" not in request.query and chance.random() < SHARE / 2

    gate.answer = lambda request: chance.choice(answers)(request) if fails(request) else None
    gate.loses = fails
    gate.lag = 0.1


async def kill_at_random(operators: list[Supervised], line: Line, kills: int, chance: random.Random) -> None:
    for _ in range(kills):
        await asyncio.sleep(chance.uniform(0.5, 2))
        await chance.choice(operators).kill()
        if chance.random() < 0.5:
            line.cut()


def calm(gate: Gate, line: Line) -> list[str]:
    """End all faults. Returns the list that records later writes."""
    writes: list[str] = []

    def count(request: Request) -> Response | None:
        if request.method in WRITES and not request.path.endswith(NOT_COUNTED) and "/events/" not in request.path:
            writes.append(f"{request.method} {request.path}")
        return None

    gate.answer, gate.loses, gate.lag = count, lambda _: False, 0.0
    line.cut()
    return writes


async def wait_converged(client: Client, namespace: str, size: Storm) -> None:
    """Wait until all objects match the specs, and all dependents of deleted objects are deleted."""
    deadline = time.monotonic() + CONVERGED_WITHIN
    while True:
        try:
            is_right(await World.of(client, namespace), size)
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(1)
        else:
            return


async def wait_idle(writes: list[str]) -> None:
    """Wait until no process writes."""
    deadline = time.monotonic() + CONVERGED_WITHIN
    while True:
        writes.clear()
        await asyncio.sleep(SILENCE)
        if not writes:
            return
        assert time.monotonic() < deadline, f"still written, within {SILENCE:g} s: {writes}"


def is_right(world: World, size: Storm) -> None:
    for example in EXAMPLES:
        for kind in example.kinds:
            names = {each.metadata.name for each in world.all(kind)}
            assert names == {name_of(kind, number) for number in range(size.objects)}
        example.are_right(world)
    assert world.leaked() == []
