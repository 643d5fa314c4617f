"""Clients that read, write and append while a cluster is under fire, and the history of what they saw."""

import asyncio
import itertools
import random
import re
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Literal

from kubewright import NotFound
from kubewright.testing import eventually

from clusters import Clusters
from etcd_operator.etcd import Etcd, Refused, Unreachable
from linearizable import Operation, is_linearizable, is_restored

KEYS = ("r0", "r1", "r2", "l0", "l1")
"""Registers, which are written, and lists, which are appended to."""
TIMEOUT = 2.0
DISTRUST = re.compile("not trusted|ALERT|CERTIFICATE")
"""In an error: one side does not accept the certificate of the other."""
PAUSE = 0.1
"""Between two operations of a client. Faults take much longer, so a shorter pause would find nothing else."""


class Workload:
    """The clients of a cluster, each at its own pace, at random members."""

    def __init__(self, clusters: Clusters, name: str, seed: int) -> None:
        self.clusters = clusters
        self.name = name
        self.chance = random.Random(seed)
        self.histories: dict[str, list[Operation]] = defaultdict(list)
        self.over = False
        """Clients end after the operation that they are in: what is cut off in the middle would not be recorded."""
        self.distrusted: list[str] = []
        """Errors of connections on which one side did not trust the other."""
        self._numbers = iter(range(1 << 30))

    async def client(self) -> None:
        while not self.over:
            try:
                async with self.clusters.connect(await self.member(), name=self.name, within=TIMEOUT) as etcd:
                    for _ in range(10):
                        if not self.over:
                            await self.operate(etcd)
                            await asyncio.sleep(PAUSE)
            except (Unreachable, Refused, NotFound) as error:
                if DISTRUST.search(str(error)):
                    self.distrusted.append(str(error))
                await asyncio.sleep(PAUSE)

    async def member(self) -> str:
        members = (await self.clusters.get(self.name)).status.members
        return self.chance.choice([each.name for each in members] or [self.name])

    async def operate(self, etcd: Etcd) -> None:
        key = self.chance.choice(KEYS)
        if self.chance.random() < 0.5:
            await self.read(etcd, key)
        elif key.startswith("r"):
            await self.write(etcd, key)
        else:
            await self.append(etcd, key)

    async def read(self, etcd: Etcd, key: str) -> tuple[str | None, str]:
        start = time.monotonic()
        answer = await etcd.get(key)
        found = answer.kvs
        value = found[0].value.decode() if found else None
        self.histories[key].append(Operation("read", start, time.monotonic(), value, cluster=answer.header.cluster_id))
        return value, found[0].mod_revision if found else "0"

    async def write(self, etcd: Etcd, key: str) -> None:
        value, start = str(next(self._numbers)), time.monotonic()
        try:
            answer = await etcd.put(key, value)
        except Unreachable:
            self.histories[key].append(Operation("write", start, value=value))
            raise
        end = time.monotonic()
        self.histories[key].append(Operation("write", start, end, value, cluster=answer.header.cluster_id))

    async def append(self, etcd: Etcd, key: str) -> None:
        before, revision = await self.read(etcd, key)
        value, start = f"{before or ''},{next(self._numbers)}", time.monotonic()
        try:
            answer = await etcd.put_if(key, value, revision)
        except Unreachable:
            self.histories[key].append(Operation("swap", start, value=value, expected=before))
            raise
        if answer.succeeded:
            end, cluster = time.monotonic(), answer.header.cluster_id
            self.histories[key].append(Operation("swap", start, end, value, before, cluster))

    async def goes_on(self, number: int) -> None:
        """Wait until this number of further operations is answered."""
        before = self.answered()

        def check() -> None:
            assert self.answered() >= before + number, f"{self.answered() - before} of {number} were answered"

        await eventually(check)

    def answered(self) -> int:
        return sum(each.answered for history in self.histories.values() for each in history)

    # ---- verdicts

    def check(self, *, at_least: int) -> None:
        """Assert that one cluster has answered, enough to judge it, and that the history of each key is linearizable."""
        self._check_size(at_least)
        bad = [key for key, history in self.histories.items() if not is_linearizable(history)]
        assert not bad, self._told(bad)
        assert len(self.clusters_in_order()) == 1, "there were two clusters"
        assert not self.distrusted, self.distrusted

    def check_restored(self, backup: tuple[float, float], *, at_least: int) -> None:
        """Assert that a second cluster continued with what the first one had during its backup."""
        self._check_size(at_least)
        first, second = self.clusters_in_order()
        bad = [key for key in self.histories if not self._is_restored(key, first, backup, second)]
        assert not bad, self._told(bad)

    def clusters_in_order(self) -> Sequence[str]:
        """Return the clusters that have answered. Asserts that none answered anything that was asked after the next."""
        answered = [each for history in self.histories.values() for each in history if each.answered]
        answered.sort(key=lambda it: it.end)
        order = list(dict.fromkeys(each.cluster for each in answered))
        for older, newer in itertools.pairwise(order):
            last_question = max(each.start for each in answered if each.cluster == older)
            first_answer = min(each.end for each in answered if each.cluster == newer)
            assert last_question < first_answer, f"clusters {older} and {newer} both answer"
        return order

    def _is_restored(self, key: str, first: str, backup: tuple[float, float], second: str) -> bool:
        before, after = (
            [each for each in self.histories[key] if each.cluster in (cluster, "")] for cluster in (first, second)
        )
        read: Literal["read"] = "read"
        return is_restored(before, Operation(read, *backup), after)

    def _check_size(self, at_least: int) -> None:
        assert self.answered() >= at_least, f"only {self.answered()} operations were answered"

    def _told(self, keys: Sequence[str]) -> str:
        lines = [f"{key}: {each}" for key in keys for each in sorted(self.histories[key], key=lambda it: it.start)]
        return "\n".join(["no order of the operations explains all answers", *lines])


@asynccontextmanager
async def under_load(
    clusters: Clusters, name: str = "main", *, clients: int = 3, seed: int = 1
) -> AsyncGenerator[Workload]:
    """Run clients during the block. No other clients may have used their keys before."""
    workload = Workload(clusters, name, seed)
    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(workload.client())
        try:
            yield workload
        finally:
            workload.over = True
