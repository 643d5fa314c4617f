"""Acts on the graph: deletes what lost its owners, orphans, and finishes foreground deletions.

Guarantees
    Nothing is deleted unless each of its owners was asked for at the API server and is not there (or another object has
    its name), and the object is still the one that was looked at: its uid is a precondition.
    A crash loses nothing: the graph is built anew from the objects, and all work follows from the graph.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from enum import Enum, auto
from typing import Final

import msgspec

from kubewright.client.client import Client, Propagation
from kubewright.client.dynamic import PartialObjectMetadata
from kubewright.client.mapper import RESTMapper
from kubewright.client.patch import MergePatch
from kubewright.controller import QueueClosed, Request, WorkQueue
from kubewright.controlplane.garbage.graph import FOREGROUND, ORPHAN, Graph, Node
from kubewright.machinery.errors import Conflict, KubewrightError, NotFound
from kubewright.models.meta import OwnerReference

_log: Final = logging.getLogger(__name__)


class Standing(Enum):
    """What an owner means for what it owns."""

    SOLID = auto()
    """It is there."""
    WAITING = auto()
    """It is being deleted in the foreground, after what it owns."""
    ABSENT = auto()


class Collector:
    """Takes uids from the queue and does what the graph says of them."""

    def __init__(self, client: Client, mapper: RESTMapper, graph: Graph, queue: WorkQueue) -> None:
        self._client = client
        self._mapper = mapper
        self._graph = graph
        self._queue = queue

    def ask(self, node: Node) -> None:
        """Look at this object soon."""
        self._queue.add(Request(None, node.uid))

    async def work(self) -> None:
        """Work until the queue is closed. A failure is retried with backoff; it concerns one object alone."""
        while True:
            try:
                async with self._queue.take() as request:
                    await self._process(request.name)
            except QueueClosed:
                return
            except Conflict:
                continue
            except KubewrightError as error:
                _log.warning("Garbage collection will be retried: %s", error)

    async def _process(self, uid: str) -> None:
        node = self._graph.get(uid)
        if node is None or node.kind is None:
            return
        if node.deleting:
            await self._finish(node)
        elif node.owners:
            await self._judge(node, node.kind)

    async def _finish(self, node: Node) -> None:
        """Bring a deletion on that waits for this collector's finalizers."""
        if node.lets_go_of_dependents:
            for dependent in self._graph.dependents(node):
                await self._disown(dependent, {node.uid})
            await self._remove_finalizer(node, ORPHAN)
        elif node.waits_for_dependents:
            blocking = [each for each in self._graph.blocking(node) if each.known]
            if not blocking:
                await self._remove_finalizer(node, FOREGROUND)
            for dependent in self._graph.dependents(node):
                if not dependent.deleting:
                    self.ask(dependent)

    async def _judge(self, node: Node, kind: type[PartialObjectMetadata]) -> None:
        """Delete an object that no owner holds; take off owners that are gone when another holds it."""
        standings = [(owner, await self._standing(node, owner)) for owner in node.owners]
        gone = {owner.uid for owner, standing in standings if standing is not Standing.SOLID}
        if not gone:
            return
        if len(gone) < len({owner.uid for owner in node.owners}):
            await self._disown(node, gone)
            return
        waiting = any(standing is Standing.WAITING for _, standing in standings)
        await self._delete(node, kind, self._propagation(node, waiting=waiting))

    def _propagation(self, node: Node, *, waiting: bool) -> Propagation:
        if ORPHAN in node.finalizers:
            return "Orphan"
        if FOREGROUND in node.finalizers or (waiting and node.dependents):
            return "Foreground"
        return "Background"

    async def _standing(self, node: Node, owner: OwnerReference) -> Standing:
        seen = self._graph.get(owner.uid)
        if seen is not None and seen.known:
            return Standing.WAITING if seen.waits_for_dependents and owner.block_owner_deletion else Standing.SOLID
        kind = PartialObjectMetadata.of(await self._mapper.kind(owner.api_version, owner.kind))
        namespace = node.key.namespace if kind.__api__.namespaced else None
        if kind.__api__.namespaced and namespace is None:
            return Standing.ABSENT  # a cluster-scoped object can't be owned by a namespaced one
        try:
            found = await self._client.get(kind, owner.name, namespace=namespace)
        except NotFound:
            return Standing.ABSENT
        return Standing.SOLID if found.metadata.uid == owner.uid else Standing.ABSENT

    async def _delete(self, node: Node, kind: type[PartialObjectMetadata], propagation: Propagation) -> None:
        try:
            await self._client.delete(
                kind, node.key.name, namespace=node.key.namespace, uid=node.uid, propagation=propagation
            )
        except NotFound:
            return
        _log.debug("Deleted object without owners", extra={"kind": kind.__api__.kind, "object": str(node.key)})

    async def _disown(self, node: Node, owners: set[str]) -> None:
        """Take owners off an object."""
        live = await self._live(node)
        if live is None:
            return
        kept = [each for each in live.metadata.owner_references if each.uid not in owners]
        if len(kept) < len(live.metadata.owner_references):
            await self._patch(live, {"ownerReferences": msgspec.to_builtins(kept)})

    async def _remove_finalizer(self, node: Node, finalizer: str) -> None:
        live = await self._live(node)
        if live is not None and finalizer in live.metadata.finalizers:
            await self._patch(live, {"finalizers": [each for each in live.metadata.finalizers if each != finalizer]})

    async def _live(self, node: Node) -> PartialObjectMetadata | None:
        """The object as the API server has it now; None when it is gone, or another has its name."""
        if node.kind is None:
            return None
        try:
            live = await self._client.get(node.kind, node.key.name, namespace=node.key.namespace)
        except NotFound:
            return None
        return live if live.metadata.uid == node.uid else None

    async def _patch(self, live: PartialObjectMetadata, change: dict[str, object]) -> None:
        version = {"uid": live.metadata.uid, "resourceVersion": live.metadata.resource_version}
        with suppress(NotFound):
            await self._client.patch(live, MergePatch({"metadata": {**version, **change}}))
