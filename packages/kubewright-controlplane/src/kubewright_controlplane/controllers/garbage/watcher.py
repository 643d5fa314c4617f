"""Updates the graph from every kind that the API server serves.

Only metadata is watched. After each change of a CustomResourceDefinition, discovery is read again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from kubewright._runtime.clock import Clock
from kubewright.cache._entry import Event
from kubewright.cache._informer import Informer
from kubewright.client._client import Client
from kubewright.client._dynamic import PartialObjectMetadata
from kubewright.client._mapper import RESTMapper, ServedResource
from kubewright.controllers import EventRecorder, WorkQueue
from kubewright.machinery.errors import KubewrightError
from kubewright.machinery.gvk import GroupVersionResource
from kubewright.models import APIResource
from kubewright_controlplane.controllers.garbage.collector import Collector
from kubewright_controlplane.controllers.garbage.graph import Graph

_log: Final = logging.getLogger(__name__)

WORKERS: Final = 10
SETTLE: Final = 0.1
"""Seconds to wait for further changes of CRDs, and between attempts if discovery fails."""
_NOT_COLLECTED: Final = frozenset({"events"})
_NEEDED: Final = frozenset({"delete", "list", "watch"})


class GarbageCollector:
    """Runs watches, graph and workers. `run` ends when it is cancelled."""

    def __init__(self, client: Client, clock: Clock, events: EventRecorder) -> None:
        self._client = client
        self._clock = clock
        self._mapper = RESTMapper(client)
        self._graph = Graph()
        self._queue = WorkQueue(clock=clock)
        self._collector = Collector(client, self._mapper, self._graph, self._queue, events)
        self._informers: dict[GroupVersionResource, Informer[PartialObjectMetadata]] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(WORKERS):
                    group.create_task(self._collector.work())
                await self._follow_kinds()
        finally:
            self._queue.close()
            await asyncio.gather(*(informer.stop() for informer in self._informers.values()))

    async def _follow_kinds(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self._watch_served()
            except KubewrightError as error:
                _log.warning("Discovery failed", extra={"error": str(error)})
                self._changed.set()
            await self._changed.wait()
            await self._clock.sleep(SETTLE)

    async def _watch_served(self) -> None:
        served = {each.api.gvr: each.api for each in await self._mapper.resources() if _is_collected(each)}
        for gvr, api in served.items():
            if gvr not in self._informers:
                self._informers[gvr] = self._watch(api)
        for gvr in self._informers.keys() - served.keys():
            informer = self._informers.pop(gvr)
            await informer.stop()
            for node in self._graph.of_kind(informer.kind.__api__):
                self._forget(node.uid, gone=False)

    def _watch(self, api: APIResource) -> Informer[PartialObjectMetadata]:
        kind = PartialObjectMetadata.of(api)
        informer = Informer(self._client, kind)
        is_crd = api.plural == "customresourcedefinitions"

        def put(event: Event[PartialObjectMetadata]) -> None:
            if event.new is not None:
                self._put(kind, event)
            if is_crd:
                self._changed.set()

        def remove(event: Event[PartialObjectMetadata]) -> None:
            self._remove(event)
            if is_crd:
                self._changed.set()

        informer.add_handler(on_add=put, on_update=put, on_delete=remove)
        informer.start()
        return informer

    def _put(self, kind: type[PartialObjectMetadata], event: Event[PartialObjectMetadata]) -> None:
        if event.new is None:
            return
        present = self._graph.get(event.new.uid)
        blocked = present.blocked_owners if present is not None else set[str]()
        node = self._graph.put(kind, event.new)
        for unblocked in map(self._graph.get, blocked - node.blocked_owners):
            if unblocked is not None:
                self._collector.ask(unblocked)
        if node.owners or node.deleting:
            self._collector.ask(node)
        if node.waits_for_dependents:
            for dependent in self._graph.dependents(node):
                self._collector.ask(dependent)

    def _remove(self, event: Event[PartialObjectMetadata]) -> None:
        if event.old is not None:
            self._forget(event.old.uid, gone=True)

    def _forget(self, uid: str, *, gone: bool) -> None:
        """Check the dependents of a deleted object, and owners that waited for it."""
        present = self._graph.get(uid)
        owners = [self._graph.get(each.uid) for each in present.owners] if present else []
        node = self._graph.remove(uid, gone=gone)
        for each in [*owners, *(self._graph.dependents(node) if node else [])]:
            if each is not None:
                self._collector.ask(each)


def _is_collected(served: ServedResource) -> bool:
    return served.preferred and served.api.plural not in _NOT_COLLECTED and served.verbs >= _NEEDED
