"""Only one of several processes of an operator writes at a time, whatever happens to them."""

from __future__ import annotations

import asyncio
import json
from bisect import bisect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from kubewright import ObjectMeta
from kubewright.apis.coordination.v1 import Lease
from kubewright.apis.core.v1 import ConfigMap
from kubewright.testing import Cluster, eventually
from robustness.beacon_operator import Beacon, manager
from robustness.faults import Line, between
from robustness.processes import OperatorProcess

BEACONS = 4


class Audit:
    """The holders of the Lease and the writers, in the order of the server."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._client = cluster.client
        self._namespace = namespace
        self.leases: list[tuple[int, str]] = []
        """Resource versions, and the holder from each version on."""
        self.writes: list[tuple[int, int]] = []
        """Resource versions, and the process that wrote each."""

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        begin = (await self._client.list(Lease, namespace=self._namespace)).resource_version
        tasks = [asyncio.create_task(self._watch_leases(begin)), asyncio.create_task(self._watch_writes(begin))]
        try:
            yield
            assert not any(task.done() for task in tasks), tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _watch_leases(self, begin: str) -> None:
        async for event in self._client.watch(Lease, namespace=self._namespace, resource_version=begin):
            holder = event.object.spec.holder_identity or ""
            self.leases.append((int(event.object.metadata.resource_version), holder))

    async def _watch_writes(self, begin: str) -> None:
        async for event in self._client.watch(ConfigMap, namespace=self._namespace, resource_version=begin):
            if event.type != "DELETED" and "process" in event.object.data:
                version = int(event.object.metadata.resource_version)
                self.writes.append((version, int(event.object.data["process"])))

    def holder_at(self, version: int) -> str:
        """Return the holder of the Lease when this version was written."""
        before = bisect(self.leases, (version, ""))
        return self.leases[before - 1][1] if before else ""

    @property
    def now(self) -> int:
        return self.writes[-1][0] if self.writes else 0


class Candidates:
    """The candidates of the election."""

    def __init__(self, kubeconfig: Path, folder: Path, line: Line) -> None:
        self._kubeconfig = kubeconfig
        self._folder = folder
        self.line = line
        """The gate between the first candidate and the server."""
        self.all: list[OperatorProcess] = []

    async def add(self, kubeconfig: Path | None = None) -> OperatorProcess:
        log = self._folder / f"{len(self.all)}.log"
        process = await OperatorProcess.start("robustness.beacon_operator", kubeconfig or self._kubeconfig, log)
        self.all.append(process)
        await eventually(stands_or_leads, process)
        return process

    async def leader(self, audit: Audit, other_than: OperatorProcess | None = None) -> OperatorProcess:
        """Wait for the process that writes next. Watch events of an earlier leader may still arrive."""
        now = audit.now

        async def check() -> OperatorProcess:
            assert audit.now > now
            writer = audit.writes[-1][1]
            assert other_than is None or writer != other_than.pid
            return next(each for each in self.all if each.pid == writer)

        return await eventually(check)

    def identities(self) -> dict[str, int]:
        """Return the process of a holder's identity."""
        return {line["identity"]: each.pid for each in self.all for line in lines(each) if "identity" in line}

    async def end(self) -> None:
        for each in self.all:
            if each.status is None:
                await each.kill()


@asynccontextmanager
async def election(cluster: Cluster, namespace: str, folder: Path) -> AsyncIterator[tuple[Audit, Candidates]]:
    """Run two candidates, one of which leads, with the role that the operator declares."""
    await cluster.install(Beacon)
    for number in range(BEACONS):
        await cluster.client.create(Beacon(metadata=ObjectMeta(name=f"beacon-{number}", namespace=namespace)))
    audit = Audit(cluster, namespace)
    rules = manager.rbac_rules() + manager.leader_election_rules()
    async with (
        cluster.service_account(rules, namespace=namespace) as account,
        between(account) as (far, line, _),
        audit.kept(),
    ):
        candidates = Candidates(cluster.kubeconfig(replace(account, namespace=namespace)), folder, line)
        try:
            await candidates.add(cluster.kubeconfig(replace(far, namespace=namespace)))
            await candidates.add()
            yield audit, candidates
        finally:
            await candidates.end()


async def test_two_processes_never_write_at_the_same_time(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    async with election(cluster, namespace, tmp_path) as (audit, candidates):
        for misfortune in (cut_off, killed, halted, stopped, halted):
            leader = await candidates.leader(audit)
            await misfortune(leader, audit, candidates)
            await candidates.add()
        identities = candidates.identities()
        wrong = [
            (version, process, holder)
            for version, process in audit.writes
            if identities.get(holder := audit.holder_at(version)) != process
        ]
        assert wrong == []
        assert len({process for _, process in audit.writes}) == len(candidates.all) - 1
        for each in candidates.all:
            assert "Traceback" not in each.log


async def cut_off(leader: OperatorProcess, audit: Audit, candidates: Candidates) -> None:
    """Check that the leader exits, and the other candidate takes over."""
    candidates.line.fall_silent()
    assert await leader.ended() == 1
    assert "not renewed within" in leader.log
    await candidates.leader(audit, other_than=leader)


async def killed(leader: OperatorProcess, audit: Audit, candidates: Candidates) -> None:
    """Check that the other candidate takes over when the lease has expired."""
    await leader.kill()
    await candidates.leader(audit, other_than=leader)


async def halted(leader: OperatorProcess, audit: Audit, candidates: Candidates) -> None:
    """Check that the other candidate takes over, and that the suspended leader exits before its next write."""
    await leader.halt()
    successor = await candidates.leader(audit, other_than=leader)
    leader.wake()
    assert await leader.ended() == 1
    assert "stopping, so that two processes never lead" in leader.log
    assert await candidates.leader(audit) is successor


async def stopped(leader: OperatorProcess, audit: Audit, candidates: Candidates) -> None:
    """Check that the leader exits with status 0 and releases the Lease, so that no candidate waits for its expiry.

    On a busy machine, the Lease of a leader may expire before it is released. Then the next leader is stopped.
    """
    for _ in range(3):
        assert await leader.stop() == 0
        successor = await candidates.leader(audit, other_than=leader)
        if next_holder(leader, audit, candidates) == "":
            return
        await candidates.add()
        leader = successor
    raise AssertionError("no leader has released the Lease")


def next_holder(leader: OperatorProcess, audit: Audit, candidates: Candidates) -> str:
    """Return the holder of the Lease after a leader; empty if the leader has released it."""
    identities = candidates.identities()
    last = max(version for version, process in audit.writes if process == leader.pid)
    after = (holder for version, holder in audit.leases if version > last)
    return next(holder for holder in after if identities.get(holder) != leader.pid)


async def stands_or_leads(process: OperatorProcess) -> None:
    assert any(line["msg"] in ("Leadership acquired", "Other leader found") for line in lines(process)), process.log


def lines(process: OperatorProcess) -> list[dict[str, str]]:
    return [json.loads(line) for line in process.log.splitlines()]
