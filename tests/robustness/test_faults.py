"""An API server that fails for a while is borne: no storm while it lasts, nothing missed after it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from integration.gizmo_operator import Gizmo, GizmoSpec, reconcile
from kubewright import Config, Context, Controller, Manager, ObjectMeta, controller
from kubewright.apis.core.v1 import ConfigMap
from kubewright.apiserver.options import ServerOptions
from kubewright.client import MergePatch
from kubewright.http.message import Request, Response
from kubewright.testing import Cluster, Environment, eventually, running
from robustness.faults import Gate, Line, between

OBJECTS = 20
LASTS = 3.0
"""Seconds."""


class Gizmos:
    """The Gizmos of one namespace, and what each should have."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self.namespace = namespace
        self.wanted: dict[str, int] = {}

    async def populate(self) -> None:
        for number in range(OBJECTS):
            await self.create(f"g-{number}", 2)
        await self.converge()

    async def create(self, name: str, parts: int) -> None:
        metadata = ObjectMeta(name=name, namespace=self.namespace)
        await self._client.create(Gizmo(metadata=metadata, spec=GizmoSpec(parts=parts)))
        self.wanted[name] = parts

    async def change(self, name: str, parts: int) -> None:
        patch = MergePatch({"spec": {"parts": parts}})
        await self._client.patch(Gizmo, patch, name=name, namespace=self.namespace)
        self.wanted[name] = parts

    async def delete(self, name: str) -> None:
        await self._client.delete(Gizmo, name, namespace=self.namespace)
        self.wanted.pop(name)

    async def damage(self, name: str) -> None:
        await self._client.delete(ConfigMap, f"{name}-0", namespace=self.namespace)

    async def shake(self) -> None:
        """Something of everything: create, change, delete, damage, and delete what comes again."""
        for number in range(0, OBJECTS, 4):
            await self.create(f"late-{number}", 1)
            await self.change(f"g-{number}", 3)
            await self.delete(f"g-{number + 1}")
            await self.damage(f"g-{number + 2}")
            await self.delete(f"g-{number + 3}")
            await self.create(f"g-{number + 3}", 1)

    async def converge(self) -> None:
        await eventually(self._check)

    async def _check(self) -> None:
        gizmos = await self._client.list(Gizmo, namespace=self.namespace)
        parts = {gizmo.metadata.name: gizmo.status.parts if gizmo.status else None for gizmo in gizmos}
        assert parts == self.wanted
        uids = {gizmo.metadata.name: gizmo.metadata.uid for gizmo in gizmos}
        present = {
            each.metadata.name: [owner.uid for owner in each.metadata.owner_references]
            for each in await self._client.list(ConfigMap, namespace=self.namespace)
            if each.metadata.name != "kube-root-ca.crt"
        }
        assert present == {
            f"{name}-{number}": [uids[name]] for name, parts in self.wanted.items() for number in range(parts)
        }


def failing(code: int, reason: str, headers: dict[str, str], methods: set[str]) -> Callable[[Request], Response | None]:
    body = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"%s","code":%d}' % (reason.encode(), code)

    def answer(request: Request) -> Response | None:
        if request.method not in methods:
            return None
        return Response(code, {"content-type": "application/json", **headers}, body)

    return answer


READS, WRITES = {"GET"}, {"POST", "PUT", "PATCH", "DELETE"}


@asynccontextmanager
async def answering(line: Line, gate: Gate, code: int, reason: str, headers: dict[str, str]) -> AsyncIterator[None]:
    gate.answer = failing(code, reason, headers, READS | WRITES)
    line.cut()
    yield
    gate.answer = lambda _: None


@asynccontextmanager
async def unavailable(line: Line, gate: Gate) -> AsyncIterator[None]:
    async with answering(line, gate, 503, "ServiceUnavailable", {}):
        yield


@asynccontextmanager
async def too_busy(line: Line, gate: Gate) -> AsyncIterator[None]:
    async with answering(line, gate, 429, "TooManyRequests", {"retry-after": "1"}):
        yield


@asynccontextmanager
async def read_only(line: Line, gate: Gate) -> AsyncIterator[None]:
    gate.answer = failing(503, "ServiceUnavailable", {}, WRITES)
    yield
    gate.answer = lambda _: None


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
        # Two kinds are watched; each may try at once, and then after half a second, a second, two.
        (unavailable, 2 * 10),
        # A watch is told to wait a second each time.
        (too_busy, 2 * 10),
        # A reconcile is tried again after 5 ms, then twice as long each time: eleven times in three seconds.
        (read_only, OBJECTS * 2 * 11),
        # A read is tried four times before it is given up.
        (reset, 2 * 10 * 4),
        (silent, OBJECTS),
    ],
)
async def test_a_server_that_fails_for_a_while_is_not_stormed_and_nothing_is_missed(
    cluster: Cluster,
    namespace: str,
    fault: Callable[[Line, Gate], AbstractAsyncContextManager[None]],
    most: int,
) -> None:
    await cluster.install(Gizmo)
    gizmos = Gizmos(cluster, namespace)
    rules = Manager([reconcile]).rbac_rules()
    async with (
        cluster.service_account(rules, namespace=namespace) as account,
        between(account) as (far, line, gate),
        running(operator(far, [reconcile])),
    ):
        await gizmos.populate()
        async with fault(line, gate):
            before = line.connections, gate.requests
            await gizmos.shake()
            await asyncio.sleep(LASTS)
            tried = max(line.connections - before[0], gate.requests - before[1])
        assert tried <= most
        await gizmos.converge()


async def test_what_was_deleted_while_there_was_no_watch_is_found_behind_a_410(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "kubewright.cache")
    lit: set[str] = set()

    @controller(Gizmo, name="lights", deleted=True)
    async def light(ctx: Context[Gizmo]) -> None:
        (lit.discard if ctx.gone else lit.add)(ctx.request.name)

    async def only_those_that_exist_are_lit() -> None:
        assert lit == set(gizmos.wanted)

    async with Environment(server=ServerOptions(history=8)) as cluster, cluster.namespace() as namespace:
        await cluster.install(Gizmo)
        gizmos = Gizmos(cluster, namespace)
        rules = Manager([reconcile]).rbac_rules()
        async with (
            cluster.service_account(rules, namespace=namespace) as account,
            between(account) as (far, line, _),
            running(operator(far, [reconcile, light])),
        ):
            await gizmos.populate()
            await eventually(only_those_that_exist_are_lit)
            line.go_down()
            await gizmos.shake()
            line.come_up()
            await gizmos.converge()
            await eventually(only_those_that_exist_are_lit)
    expired = {record.getMessage().split(":")[0] for record in caplog.records if "too old" in record.getMessage()}
    assert expired == {"Cannot follow gizmos.kubewright.test", "Cannot follow configmaps"}


def operator(config: Config, controllers: list[Controller[Gizmo]]) -> Manager:
    return Manager(controllers, name="gizmos", config=config, health_address="0", metrics_address="0")
