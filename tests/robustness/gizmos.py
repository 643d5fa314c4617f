"""Gizmos and their ConfigMaps: changes to them, and the expected state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from time import monotonic_ns

from integration.gizmo_operator import Gizmo, GizmoSpec
from kubewright import Client, Config, Manager, NotFound, ObjectMeta
from kubewright.apis.core.v1 import ConfigMap
from kubewright.client import MergePatch
from kubewright.controllers import Controller
from kubewright.testing import Cluster, eventually
from robustness.faults import Gate, Line, between

OBJECTS = 20
CONVERGED_WITHIN = 900.0
"""Seconds: long enough for a machine that other programs keep busy."""
QUIET = 0.3
"""Seconds in which an operator would have finished all work."""


class Gizmos:
    """The Gizmos of one namespace, and their expected parts."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
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
        with suppress(NotFound):  # it has not been created yet
            await self._client.delete(ConfigMap, f"{name}-0", namespace=self.namespace)

    async def shake(self) -> None:
        """Create, change, delete and damage objects, and delete objects that are recreated."""
        for number in range(0, OBJECTS, 4):
            await self.create(f"late-{number}", 1)
            await self.change(f"g-{number}", 3)
            await self.delete(f"g-{number + 1}")
            await self.damage(f"g-{number + 2}")
            await self.delete(f"g-{number + 3}")
            await self.create(f"g-{number + 3}", 1)

    async def take_stock(self) -> None:
        """Expect the specs on the server: requests of a killed process may be missing."""
        found = await self._client.list(Gizmo, namespace=self.namespace)
        self.wanted = {gizmo.metadata.name: gizmo.spec.parts for gizmo in found}

    async def rest(self, gate: Gate) -> None:
        """Wait until a reconcile of every Gizmo writes nothing."""

        async def check() -> None:
            before = gate.writes
            await self.touch()
            await asyncio.sleep(QUIET)
            assert gate.writes == before, f"{gate.writes - before} writes although all objects are up to date"

        await self.converge()
        await eventually(check)

    async def touch(self) -> None:
        """Trigger a reconcile of every Gizmo."""
        patch = MergePatch({"metadata": {"annotations": {"kubewright.test/looked-at": str(monotonic_ns())}}})
        for name in self.wanted:
            await self._client.patch(Gizmo, patch, name=name, namespace=self.namespace)

    async def come_and_go(self, prefix: str, count: int) -> None:
        """Create, change, damage and delete Gizmos with new names."""
        names = [f"{prefix}-{number}" for number in range(count)]
        for name in names:
            await self.create(name, 2)
        await self.converge()
        for number, name in enumerate(names):
            await self.change(name, 1 + number % 3)
            await self.damage(name)
        await self.converge()
        await self.clear()
        await self.converge()

    async def clear(self) -> None:
        for name in list(self.wanted):
            await self.delete(name)

    async def converge(self) -> None:
        await eventually(self._check, within=CONVERGED_WITHIN)

    async def have_no_orphans(self) -> None:
        """Assert that the parts of deleted Gizmos are deleted."""
        living = {each.metadata.uid for each in await self._client.list(Gizmo, namespace=self.namespace)}
        parts = await self._client.list(ConfigMap, namespace=self.namespace)
        orphans = [each for each in parts for owner in each.metadata.owner_references if owner.uid not in living]
        assert not orphans, f"{len(orphans)} are left"

    async def _check(self) -> None:
        gizmos = await self._client.list(Gizmo, namespace=self.namespace)
        parts = {gizmo.metadata.name: gizmo.status.parts if gizmo.status else None for gizmo in gizmos}
        assert parts == self.wanted, f"{parts}, wanted: {self.wanted}"
        uids = {gizmo.metadata.name: gizmo.metadata.uid for gizmo in gizmos}
        present = {
            each.metadata.name: [owner.uid for owner in each.metadata.owner_references]
            for each in await self._client.list(ConfigMap, namespace=self.namespace)
            if each.metadata.name != "kube-root-ca.crt"
        }
        wanted = {f"{name}-{number}": [uids[name]] for name, parts in self.wanted.items() for number in range(parts)}
        differing = {
            name: (present.get(name), wanted.get(name))
            for name in present.keys() | wanted.keys()
            if present.get(name) != wanted.get(name)
        }
        assert not differing, f"present and wanted: {differing}"


@asynccontextmanager
async def operated(
    cluster: Cluster, namespace: str, controllers: list[Controller[Gizmo]]
) -> AsyncIterator[tuple[Line, Gate]]:
    """Run an operator behind a line and a gate, with only the permissions that its controllers declare."""
    await cluster.install(Gizmo)
    rules = Manager(controllers).rbac_rules()
    async with (
        cluster.service_account(rules, namespace=namespace) as account,
        between(account) as (far, line, gate),
        operator(far, controllers),
    ):
        yield line, gate


def operator(config: Config, controllers: list[Controller[Gizmo]]) -> Manager:
    return Manager(controllers, name="gizmos", config=config, health_address="0", metrics_address="0")
