"""An API server fails for a while: the operator does not flood it, and misses no event."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from time import monotonic

import pytest

from integration.gizmo_operator import Gizmo, part, reconcile
from kubewright import Context, Manager, controller
from kubewright.apis.core.v1 import ConfigMap
from kubewright.controllers import DeletedContext
from kubewright.testing import Cluster, eventually
from kubewright_controlplane import Environment
from kubewright_controlplane.apiserver.options import ServerOptions
from robustness.faults import WRITES, Gate, Line, between, failing
from robustness.gizmos import OBJECTS, Gizmos, operator
from robustness.processes import operator as operator_process
from webserver_operator.api.v1.webserver import WebServer
from webserver_operator.controller.webserver import reconcile as reconcile_webserver

LASTS = 2.0
"""Seconds."""


@asynccontextmanager
async def answering(
    line: Line, gate: Gate, code: int, reason: str, headers: dict[str, str] | None = None
) -> AsyncIterator[None]:
    gate.answer = failing(code, reason, headers)
    line.cut()
    yield
    gate.answer = lambda _: None


@asynccontextmanager
async def unavailable(line: Line, gate: Gate) -> AsyncIterator[None]:
    async with answering(line, gate, 503, "ServiceUnavailable"):
        yield


@asynccontextmanager
async def too_busy(line: Line, gate: Gate) -> AsyncIterator[None]:
    async with answering(line, gate, 429, "TooManyRequests", {"retry-after": "1"}):
        yield


@asynccontextmanager
async def read_only(line: Line, gate: Gate) -> AsyncIterator[None]:
    gate.answer = failing(503, "ServiceUnavailable", methods=WRITES)
    yield
    gate.answer = lambda _: None


@asynccontextmanager
async def broken(line: Line, gate: Gate) -> AsyncIterator[None]:
    async with answering(line, gate, 500, "InternalError"):
        yield


@asynccontextmanager
async def conflicting(line: Line, gate: Gate) -> AsyncIterator[None]:
    gate.answer = failing(409, "Conflict", methods=WRITES)
    yield
    gate.answer = lambda _: None


@asynccontextmanager
async def half_written(line: Line, gate: Gate) -> AsyncIterator[None]:
    gate.cuts = lambda _: True
    line.cut()
    yield
    gate.cuts = lambda _: False


@asynccontextmanager
async def slow(line: Line, gate: Gate) -> AsyncIterator[None]:
    gate.delay = LASTS / 4
    line.cut()
    yield
    gate.delay = 0.0


@asynccontextmanager
async def reset(line: Line, gate: Gate) -> AsyncIterator[None]:
    line.go_down()
    yield
    line.come_up()


@asynccontextmanager
async def silent(line: Line, gate: Gate) -> AsyncIterator[None]:
    line.fall_silent()
    yield
    line.speak()


@pytest.mark.parametrize(
    ("fault", "most"),
    [
        # Two kinds are watched. Each watch retries at once, and then after half a second, one second and two seconds.
        (unavailable, 2 * 10),
        (broken, 2 * 10),
        # Retry-After makes a watch wait for a second each time.
        (too_busy, 2 * 10),
        # A reconcile is retried after 5 ms, then after twice as long each time: ten times in two seconds.
        (read_only, OBJECTS * 2 * 10),
        (conflicting, OBJECTS * 2 * 10),
        # A read is tried four times before it fails.
        (reset, 2 * 10 * 4),
        (half_written, 2 * 10 * 4),
        (silent, OBJECTS),
        # Each of two workers waits for each answer.
        (slow, OBJECTS),
    ],
)
async def test_a_failing_server_is_not_flooded_and_no_event_is_missed(
    cluster: Cluster,
    namespace: str,
    fault: Callable[[Line, Gate], AbstractAsyncContextManager[None]],
    most: int,
) -> None:
    await cluster.install(Gizmo)
    gizmos = Gizmos(cluster.client, namespace)
    rules = Manager([reconcile]).rbac_rules()
    async with (
        cluster.service_account(rules, namespace=namespace) as account,
        between(account) as (far, line, gate),
        operator(far, [reconcile]),
    ):
        await gizmos.populate()
        async with fault(line, gate):
            before, began = (line.connections, gate.requests), monotonic()
            await gizmos.shake()
            await asyncio.sleep(LASTS)
            tried, lasted = max(line.connections - before[0], gate.requests - before[1]), monotonic() - began
        assert tried <= most * lasted / LASTS, f"within {lasted:.1f} s"
        await gizmos.rest(gate)


async def test_objects_converge_after_random_faults_under_load(cluster: Cluster, namespace: str) -> None:
    chance = random.Random(20261120)
    answers = [
        failing(500, "InternalError"),
        failing(503, "ServiceUnavailable"),
        failing(429, "TooManyRequests", {"retry-after": "1"}),
        failing(409, "Conflict"),
        failing(410, "Expired"),
    ]
    await cluster.install(Gizmo)
    gizmos = Gizmos(cluster.client, namespace)
    async with (
        cluster.service_account(Manager([reconcile]).rbac_rules(), namespace=namespace) as account,
        between(account) as (far, line, gate),
        operator(far, [reconcile]),
    ):
        gate.answer = lambda request: chance.choice(answers)(request) if chance.random() < 0.1 else None
        gate.loses = lambda _: chance.random() < 0.1
        for _ in range(4):
            for number in range(OBJECTS):
                await gizmos.create(f"g-{number}", chance.randint(0, 3))
            await gizmos.shake()
            line.cut()
            await asyncio.sleep(0.5)
            await gizmos.clear()
        await gizmos.populate()
        gate.answer, gate.loses = lambda _: None, lambda _: False
        await gizmos.rest(gate)


async def test_deletes_without_a_watch_are_found_after_a_410(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "kubewright.cache")
    lit: set[str] = set()

    @controller(Gizmo, name="lights", reconcile_deleted=True)
    async def light(ctx: Context[Gizmo] | DeletedContext[Gizmo]) -> None:
        (lit.discard if isinstance(ctx, DeletedContext) else lit.add)(ctx.request.name)

    async def only_those_that_exist_are_lit() -> None:
        assert lit == set(gizmos.wanted)

    async with Environment(server=ServerOptions(history=8)) as cluster, cluster.namespace() as namespace:
        await cluster.install(Gizmo)
        gizmos = Gizmos(cluster.client, namespace)
        rules = Manager([reconcile]).rbac_rules()
        async with (
            cluster.service_account(rules, namespace=namespace) as account,
            between(account) as (far, line, _),
            operator(far, [reconcile, light]),
        ):
            await gizmos.populate()
            await eventually(only_those_that_exist_are_lit)
            line.go_down()
            await gizmos.shake()
            await eventually(gizmos.have_no_orphans)  # more deletes than the server remembers, of both kinds
            line.come_up()
            await gizmos.converge()
            await eventually(only_those_that_exist_are_lit)
    fields = [record.__dict__["fields"] for record in caplog.records]
    expired = {each["resource"] for each in fields if "too old" in each.get("error", "")}
    assert expired == {"gizmos.kubewright.test", "configmaps"}


async def test_a_deleted_child_that_no_watch_reported_is_recreated(cluster: Cluster, namespace: str) -> None:
    @controller(Gizmo, name="keeper", owns=[ConfigMap])
    async def keep(ctx: Context[Gizmo]) -> None:
        await ctx.apply(part(ctx.object, 0))

    unavailable = failing(503, "ServiceUnavailable")
    expired = failing(410, "Expired")
    await cluster.install(Gizmo)
    gizmos = Gizmos(cluster.client, namespace)
    async with (
        cluster.service_account(Manager([keep]).rbac_rules(), namespace=namespace) as account,
        between(account) as (far, line, gate),
        operator(far, [keep]),
    ):
        gate.answer = lambda request: unavailable(request) if request.path.endswith("/configmaps") else None
        line.cut()
        await gizmos.create("late", 1)
        child = await eventually(cluster.client.get, ConfigMap, "late-0", namespace=namespace)
        await cluster.client.delete(child)
        gate.answer = lambda request: (
            expired(request) if request.path.endswith("/configmaps") and "resourceVersion=" in request.query else None
        )
        again = await eventually(cluster.client.get, ConfigMap, "late-0", namespace=namespace)
        assert again.metadata.uid != child.metadata.uid
        gate.answer = lambda _: None


@pytest.mark.parametrize("fault", [silent, reset, unavailable])
async def test_an_operator_stops_although_its_server_fails(
    cluster: Cluster,
    namespace: str,
    tmp_path: Path,
    fault: Callable[[Line, Gate], AbstractAsyncContextManager[None]],
) -> None:
    await cluster.install(WebServer)
    manager = Manager([reconcile_webserver])
    rules = manager.rbac_rules() + manager.leader_election_rules()
    async with cluster.service_account(rules, namespace=namespace) as account, between(account) as (far, line, gate):
        kubeconfig, log = cluster.kubeconfig(far), tmp_path / "log"
        async with operator_process("webserver_operator.main", kubeconfig, log, ["--leader-elect"]) as process:
            await eventually(process.works)
            async with fault(line, gate):
                assert await process.stop() == 0, process.log
            assert "Traceback" not in process.log
