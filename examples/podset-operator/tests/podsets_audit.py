"""Looks at everything that happens to PodSets and their Pods, and finds each Pod that was one too many."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

from kubewright.apis.core.v1 import Pod
from kubewright.testing import eventually

from podset_operator.api.v1.podset import PodSet
from podsets import PodSets, lives


class Audit:
    """What happened in one namespace, in the order in which the server did it.

    Which number counts while it changes? A Pod that comes to live is one too many if with it there are more than the
    most that was wanted since the last write of the PodSet's status: before the operator creates a Pod it writes the
    status, over the very PodSet that it has looked at. As long as the number stays the same, it is that number.
    """

    def __init__(self, podsets: PodSets) -> None:
        self._client = podsets.client
        self._namespace = podsets.namespace
        self._events: list[tuple[int, str, PodSet | Pod]] = []
        self.pods_made = 0

    @asynccontextmanager
    async def kept(self) -> AsyncGenerator["Audit"]:
        """For as long as the block lasts. At its end it is looked through: AssertionError for a Pod too many."""
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
        """Who is slow to read is cut off by a real API server: the watch is taken up again where it ended."""
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
