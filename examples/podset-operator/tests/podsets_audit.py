"""Records all events of PodSets and their Pods, and finds every surplus Pod."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

from kubewright.apis.core.v1 import Pod
from kubewright.testing import eventually

from podset_operator.api.v1.podset import PodSet
from podsets import PodSets, lives


class Audit:
    """The events of one namespace, in the order of the server.

    A new Pod is a surplus if the PodSet then has more live Pods than it ever wanted since the last write of its status.
    The operator writes the status of the PodSet that it read before it creates a Pod.
    """

    def __init__(self, podsets: PodSets) -> None:
        self._client = podsets.client
        self._namespace = podsets.namespace
        self._events: list[tuple[int, str, PodSet | Pod]] = []
        self.pods_made = 0

    @asynccontextmanager
    async def kept(self) -> AsyncGenerator["Audit"]:
        """Record events during the block, then assert that there was no surplus Pod."""
        tasks = [asyncio.create_task(self._follow(kind)) for kind in (PodSet, Pod)]
        try:
            yield self
            await eventually(self._is_up_to_date)
            assert not any(task.done() for task in tasks), tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert list(self._pods_too_many()) == []

    async def _follow(self, kind: type[PodSet] | type[Pod]) -> None:
        """Watch a kind. Continue where the watch ended: a real API server disconnects slow readers."""
        version: str | None = None
        while True:
            async for event in self._client.watch(
                kind, namespace=self._namespace, resource_version=version, send_initial_events=version is None
            ):
                version = event.object.metadata.resource_version
                self._events.append((int(version), event.type, event.object))

    async def _is_up_to_date(self) -> None:
        known = {obj.metadata.uid: obj.metadata.resource_version for _, _, obj in self._in_order()}
        for kind in (PodSet, Pod):
            for each in await self._client.list(kind, namespace=self._namespace):
                assert known.get(each.metadata.uid) == each.metadata.resource_version

    def _in_order(self) -> list[tuple[int, str, PodSet | Pod]]:
        return sorted(self._events, key=lambda event: event[0])

    def _pods_too_many(self) -> Iterator[str]:
        generations: dict[str, int | None] = {}
        wanted: dict[str, int] = defaultdict(int)
        living: dict[str, set[str]] = defaultdict(set)
        for version, happened, obj in self._in_order():
            uid = obj.metadata.uid
            if isinstance(obj, PodSet):
                is_status = generations.get(uid) == obj.metadata.generation
                wanted[uid] = obj.spec.replicas if is_status else max(wanted[uid], obj.spec.replicas)
                generations[uid] = obj.metadata.generation
                continue
            for owner in obj.metadata.owner_references:
                pods = living[owner.uid]
                if happened == "DELETED" or not lives(obj):
                    pods.discard(uid)
                elif uid not in pods:
                    pods.add(uid)
                    self.pods_made += 1
                    if len(pods) > wanted[owner.uid]:
                        yield f"version {version}: {obj.metadata.name} is {len(pods)} of {wanted[owner.uid]}"
