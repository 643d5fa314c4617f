"""An observer that trusts neither the operator nor the API: it looks at the processes on this machine and asks each etcd.

Invariants, checked all the time
    There is one cluster: all processes belong to the same epoch, and an epoch has one cluster ID.
    A member ID belongs to one process, and always to the same data: it never starts again with an empty folder.
    A healthy majority is never removed: neither from the membership nor by the deletion of a healthy member's Pod.
    The volume of a member is deleted only after the member was removed.

What the operator deletes is judged when its request arrives (`Observed`).
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from kubewright import Config, NotFound
from kubewright.apis.core.v1 import PersistentVolumeClaim, Pod
from kubewright.client import HTTPTransport, Transport
from kubewright.http.message import Request, Response

from clusters import Clusters
from etcd_operator import objects
from etcd_operator.etcd import Credentials, Etcd, Members, Refused, Status, Unreachable
from processes import Process, processes_of

EVERY: Final = 0.5
"""Seconds between two observations."""
PATIENCE: Final = 6.0
"""Seconds for which the operator may believe what it saw: a view takes up to 3, and what it decides is done next."""
ANSWER: Final = 1.0
"""Seconds that a member has to answer."""
SMALL: Final = 2
"""Clusters of this size are not available while a member restarts."""


@dataclass
class Observation:
    """What all members said at a moment."""

    at: float
    voters: frozenset[str] = frozenset()
    """IDs."""
    members: dict[str, str] = field(default_factory=dict[str, str])
    """The ID of each name."""
    healthy: frozenset[str] = frozenset()

    def majority_without(self, *gone: str) -> bool:
        """Return whether the other voters have a healthy majority among themselves."""
        left = self.voters - {*gone}
        return len(left & self.healthy) >= len(left) // 2 + 1


class Observer:
    """Watches one cluster. `check` raises what was wrong."""

    def __init__(self, clusters: Clusters, name: str, uid: str) -> None:
        self.clusters = clusters
        self.name = name
        self.uid = uid
        self.wrong: list[str] = []
        self.seen = 0
        """The number of observations."""
        self._recent: deque[Observation] = deque()
        self._cluster_ids: dict[str, str] = {}
        self._logs: dict[tuple[str, str], int] = {}
        """The folder in which each member of a cluster writes its log, open."""

    async def run(self) -> None:
        while True:
            await self.observe()
            await asyncio.sleep(EVERY)

    def close(self) -> None:
        for each in self._logs.values():
            os.close(each)

    def check(self) -> None:
        assert self.seen, "nothing was observed"
        assert not self.wrong, "\n".join(self.wrong)

    async def observe(self) -> Observation:
        """Look at all processes and ask them."""
        processes = self._processes()
        trust = await self._trust()
        answers = await asyncio.gather(*(ask(each.url, trust) for each in processes))
        said = {process: answer for process, answer in zip(processes, answers, strict=True) if answer is not None}
        self._check_identities(processes, said)
        found = Observation(time.monotonic())
        if said:
            _, latest = max(said.values(), key=lambda it: int(it[0].raft_term))
            found.voters = frozenset(each.id for each in latest.members if not each.is_learner)
            found.members = {each.name: each.id for each in latest.members}
            found.healthy = frozenset(it.header.member_id for it, _ in said.values() if it.leader != "0")
        self._check_removals(found)
        self.seen += 1
        self._recent.append(found)
        while self._recent[0].at < found.at - PATIENCE:
            self._recent.popleft()
        return found

    async def _trust(self) -> Credentials | None:
        try:
            return await self.clusters.trust(self.name)
        except NotFound:  # the first certificate is not issued yet
            return None

    def _processes(self) -> list[Process]:
        """Return the cluster's processes, all of which ran at one moment."""
        found = list(processes_of(self.uid))
        return [each for each in found if each.lives]

    def _check_identities(self, processes: list[Process], said: dict[Process, tuple[Status, Members]]) -> None:
        epochs = {each.token for each in processes}
        if len(epochs) > 1:
            self.wrong.append(f"two clusters at the same time: {sorted(epochs)}")
        names = [each.name for each in processes]
        if len(names) > len(set(names)):
            self.wrong.append(f"two processes of the same member: {processes}")
        holders: dict[str, str] = {}
        for process, (status, _) in said.items():
            cluster, member = status.header.cluster_id, status.header.member_id
            if self._cluster_ids.setdefault(process.token, cluster) != cluster and process.lives:
                self.wrong.append(f"two clusters in {process.token}: {self._cluster_ids[process.token]} and {cluster}")
            if holders.setdefault(member, process.name) != process.name:
                self.wrong.append(f"{holders[member]} and {process.name} are both member {member}")
            if not self._has_its_log(process, (cluster, member)):
                self.wrong.append(f"member {member} ({process.name}) started again with other data")

    def _has_its_log(self, process: Process, member: tuple[str, str]) -> bool:
        opened = process.open_log()
        if opened is None:
            return True
        known = self._logs.get(member)
        if known is None:
            self._logs[member] = opened
            return True
        try:
            return os.path.sameopenfile(known, opened)
        finally:
            os.close(opened)

    def _check_removals(self, found: Observation) -> None:
        """Check that what is no longer a member could be removed, by what was seen shortly before."""
        before = self._recent[-1] if self._recent else None
        if before is None or not found.voters or not before.voters & found.voters:
            return  # nothing is known, or another cluster has begun
        removed = before.voters - found.voters
        if removed and not any(each.majority_without(*removed) for each in self._recent):
            self.wrong.append(f"{sorted(removed)} left although the others had no healthy majority: {before}")

    # ---- what the operator deletes

    async def judge(self, kind: type[Pod | PersistentVolumeClaim], name: str) -> None:
        """Judge a deletion before it happens."""
        try:
            target = await self.clusters.client.get(kind, name, namespace=self.clusters.namespace)
        except NotFound:
            return
        labels, cluster = target.metadata.labels, await self.clusters.get(self.name)
        if labels.get(objects.MEMBER) != name or labels.get(objects.EPOCH) != str(cluster.status.epoch.number):
            return  # of a task, or of an earlier epoch
        now = await self.observe()
        member = now.members.get(name)
        if member is None:
            return
        if kind is PersistentVolumeClaim:
            self.wrong.append(f"the operator deletes the volume of {name}, which is member {member}")
        elif member in now.healthy and len(now.voters) > SMALL and not self._could_spare(member):
            self.wrong.append(f"the operator deletes the healthy Pod {name}, without a majority of others: {now}")

    def _could_spare(self, member: str) -> bool:
        """Return whether, lately, a majority of all voters was healthy without this one."""
        return any(len(it.healthy & it.voters - {member}) >= len(it.voters) // 2 + 1 for it in self._recent)


class Observed(Transport):
    """The operator's way to the API server, on which its deletions are judged."""

    def __init__(self, config: Config, observer: Observer) -> None:
        self._inner = HTTPTransport(config)
        self._observer = observer

    async def send(
        self,
        request: Request,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as Transport has it
        stream: bool = False,
    ) -> Response:
        if request.method == "DELETE":
            *_, kind, name = request.path.split("/")
            if kind in _JUDGED:
                await self._observer.judge(_JUDGED[kind], name)
        return await self._inner.send(request, timeout=timeout, stream=stream)

    async def close(self) -> None:
        await self._inner.close()


_JUDGED: Final[dict[str, type[Pod | PersistentVolumeClaim]]] = {
    "pods": Pod,
    "persistentvolumeclaims": PersistentVolumeClaim,
}


@asynccontextmanager
async def observed(clusters: Clusters, name: str = "main") -> AsyncGenerator[Observer]:
    """Observe a cluster during the block, and check at its end that nothing was wrong."""
    cluster = await clusters.get(name)
    observer = Observer(clusters, name, cluster.metadata.uid)
    watching = asyncio.create_task(observer.run())
    try:
        yield observer
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        observer.close()
    if not watching.cancelled():
        watching.result()
    observer.check()


async def ask(url: str, trust: Credentials | None) -> tuple[Status, Members] | None:
    """Return what a member says about itself, and about the membership as it knows it; None without an answer."""
    async with Etcd(url, trust, timeout=ANSWER) as etcd:
        try:
            return await etcd.status(), await etcd.members(linearizable=False)
        except (Unreachable, Refused):
            return None
