"""Faults that a cluster has to survive, chosen at random."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from kubewright import NotFound
from kubewright.apis.core.v1 import PersistentVolumeClaim, Pod

from clusters import Clusters
from etcd_operator.local import NEW, OLD
from observer import Observer


class Chaos:
    """Causes one fault after another. `done` has what it did."""

    def __init__(self, clusters: Clusters, observer: Observer, chance: random.Random) -> None:
        self.clusters = clusters
        self.observer = observer
        self.chance = chance
        self.done: list[str] = []
        self.faults: Mapping[str, Callable[[str], Awaitable[object]]] = {
            "kill": clusters.kill,
            "pause": self.pause,
            "delete": self.delete,
            "lose": self.lose,
            "forget": self.forget,
            "cut off": self.cut_off,
            "hide": self.hide,
            "resize": self.resize,
            "change the version": self.change_version,
        }

    async def cause(self, faults: int) -> None:
        for _ in range(faults):
            victim = await self.victim()
            if victim is not None:
                fault = self.chance.choice(list(self.faults))
                self.done.append(f"{fault} {victim}")
                await self.faults[fault](victim)
            await asyncio.sleep(self.chance.random() * 3)

    async def victim(self) -> str | None:
        """Return a member that the cluster can spare now and that has all its objects; None if there is none."""
        now = await self.observer.observe()
        spared = [
            name
            for name, member in sorted(now.members.items())
            if member in now.voters and len((now.healthy & now.voters) - {member}) >= len(now.voters) // 2 + 1
        ]
        whole = [name for name in spared if await self.is_whole(name)]
        return self.chance.choice(whole) if whole else None

    async def is_whole(self, member: str) -> bool:
        try:
            pod = await self.clusters.client.get(Pod, member, namespace=self.clusters.namespace)
            claim = await self.clusters.client.get(PersistentVolumeClaim, member, namespace=self.clusters.namespace)
        except NotFound:
            return False
        return pod.status.phase == "Running" and not (
            pod.metadata.deletion_timestamp or claim.metadata.deletion_timestamp
        )

    async def pause(self, member: str) -> None:
        async with self.clusters.paused(member):
            await asyncio.sleep(self.chance.random() * 3)

    async def delete(self, member: str) -> None:
        await self.clusters.client.delete(Pod, member, namespace=self.clusters.namespace)

    async def lose(self, member: str) -> None:
        client, namespace = self.clusters.client, self.clusters.namespace
        await client.delete(PersistentVolumeClaim, member, namespace=namespace)
        with suppress(NotFound):  # the operator deletes it, too
            await client.delete(Pod, member, namespace=namespace, grace_period=0)

    async def forget(self, member: str) -> None:
        await self.clusters.empty_data_folder(member)
        await self.clusters.kill(member)

    async def cut_off(self, member: str) -> None:
        async with self.clusters.cut_off(member):
            await asyncio.sleep(self.chance.random() * 5)

    async def hide(self, member: str) -> None:
        async with self.clusters.hidden(member):
            await asyncio.sleep(self.chance.random() * 5)

    async def resize(self, _: str) -> None:
        await self.clusters.change(size=self.chance.choice((3, 5)))

    async def change_version(self, _: str) -> None:
        await self.clusters.change(version=self.chance.choice((OLD, NEW)))
