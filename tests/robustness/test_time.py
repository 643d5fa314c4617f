"""Clocks that jump, and watches that lag."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

from integration.gizmo_operator import ELECTION, Gizmo, reconcile
from kubewright import Context, Manager, ObjectMeta, controller
from kubewright._runtime.clock import SystemClock
from kubewright.apis.coordination.v1 import Lease
from kubewright.apis.core.v1 import ConfigMap
from kubewright.machinery.time import seconds
from kubewright.testing import Cluster, eventually
from robustness.faults import between, failing
from robustness.gizmos import OBJECTS, Gizmos, operated


class Jumping(SystemClock):
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


async def test_a_clock_that_jumps_by_years_loses_neither_the_lease_nor_a_write(
    cluster: Cluster, namespace: str
) -> None:
    await cluster.install(Gizmo)
    client, gizmos, clock = cluster.client, Gizmos(cluster.client, namespace), Jumping()
    manager = Manager(
        [reconcile], name="gizmos", leader_election=ELECTION, clock=clock, health_address="0", metrics_address="0"
    )
    rules = manager.rbac_rules() + manager.leader_election_rules()
    async with (
        cluster.service_account(rules, namespace=namespace) as account,
        between(account) as (far, _, gate),
        manager.replace(config=replace(far, namespace=namespace)),
    ):
        await gizmos.populate()
        for years in (10, -10):
            clock.ahead = timedelta(days=365 * years)
            await gizmos.shake()
            await asyncio.sleep(seconds(ELECTION.lease_duration) / 2)
            await gizmos.converge()
            await gizmos.clear()
            await gizmos.populate()
        lease = await client.get(Lease, "gizmos", namespace=namespace)
        assert lease.spec.lease_transitions == 0
        await gizmos.rest(gate)


async def test_children_with_generated_names_are_created_once_although_the_watch_lags(
    cluster: Cluster, namespace: str
) -> None:
    chance = random.Random(20261120)
    answers = [
        failing(409, "Conflict"),
        failing(429, "TooManyRequests", {"retry-after": "1"}),
        failing(503, ""),
    ]

    @controller(Gizmo, owns=[ConfigMap], workers=4)
    async def count(ctx: Context[Gizmo]) -> None:
        found = await ctx.list(ConfigMap, owned=True)
        for _ in range(ctx.object.spec.parts - len(found)):
            await ctx.create(ConfigMap(metadata=ObjectMeta(generate_name=f"{ctx.request.name}-")))

    gizmos = Gizmos(cluster.client, namespace)
    async with operated(cluster, namespace, [count]) as (_, gate):
        before, gate.lag = gate.codes[201], 0.1
        gate.answer = lambda request: chance.choice(answers)(request) if chance.random() < 0.1 else None
        for number in range(OBJECTS):
            await gizmos.create(f"g-{number}", 3)
        for _ in range(5):
            await gizmos.touch()
            await asyncio.sleep(0.1)

        async def each_has_its_own() -> None:
            maps = await cluster.client.list(ConfigMap, namespace=namespace)
            owners = Counter(owner.name for each in maps for owner in each.metadata.owner_references)
            assert owners == gizmos.wanted

        await eventually(each_has_its_own)
        assert gate.codes[201] - before == 3 * OBJECTS
