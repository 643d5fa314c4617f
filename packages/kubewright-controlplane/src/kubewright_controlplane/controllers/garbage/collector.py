"""Acts on the graph: deletes what lost its owners, orphans, and finishes foreground deletions.

Guarantees
    Nothing is deleted unless each of its owners is going, or gone: its deletion was seen, or no watch has seen it and
    the API server does not find it (or another object has its name). What is deleted is still what was looked at: its
    uid and resource version are preconditions, and its owners were read from the server.
    A crash loses nothing: the graph is built anew from the objects, and all work follows from the graph.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import timedelta
from enum import Enum, auto
from typing import Final

import msgspec

from kubewright.apis.meta.v1 import OwnerReference
from kubewright.client._client import Client
from kubewright.client._dynamic import PartialObjectMetadata
from kubewright.client._mapper import RESTMapper
from kubewright.client._patch import MergePatch
from kubewright.client._write import Propagation
from kubewright.controllers import QueueClosed, Request, WorkQueue
from kubewright.machinery.errors import Conflict, KubewrightError, NotFound
from kubewright_controlplane.controllers.garbage.graph import FOREGROUND, ORPHAN, Graph, Node

_log: Final = logging.getLogger(__name__)


_RECHECK: Final = timedelta(seconds=1)
"""When to look again at what has an owner that no watch has seen yet."""


class Standing(Enum):
    """What an owner means for what it owns."""

    SOLID = auto()
    """It is there."""
    WAITING = auto()
    """It is being deleted in the foreground, after what it owns."""
    ABSENT = auto()
    INVALID = auto()
    """A cluster-scoped object can't be owned by a namespaced one: what is meant can't be told."""


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
            await self._judge(node)

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

    async def _judge(self, node: Node) -> None:
        """Delete an object that no owner holds; take off owners that are gone when another holds it."""
        if all(self._seen(node, owner) is Standing.SOLID for owner in node.owners):
            return
        live = await self._live(node)
        if live is None or not live.metadata.owner_references:
            return
        owners = live.metadata.owner_references
        standings = {owner.uid: await self._standing(node, owner) for owner in owners}
        if Standing.INVALID in standings.values():
            return
        gone = {uid for uid, standing in standings.items() if standing is not Standing.SOLID}
        if len(gone) == len(standings):
            await self._delete(node, live, waiting=Standing.WAITING in standings.values())
        elif gone:
            await self._disown(node, gone)
        elif any(self._seen(node, owner) is None for owner in owners):
            self._queue.add(Request(None, node.uid), after=_RECHECK)  # its end would not be seen before its kind is

    def _seen(self, node: Node, owner: OwnerReference) -> Standing | None:
        """An owner's standing as the graph has it; None when the API server has to be asked."""
        seen = self._graph.get(owner.uid)
        if seen is None:
            return None
        if seen.kind is None:
            return Standing.ABSENT if seen.gone else None
        named = (seen.kind.__api__.kind, seen.key.name) == (owner.kind, owner.name)
        if not named or seen.key.namespace not in (None, node.key.namespace):
            return None  # a reference says who is meant by uid, kind, name and its own namespace: all have to agree
        return Standing.WAITING if seen.waits_for_dependents else Standing.SOLID

    async def _standing(self, node: Node, owner: OwnerReference) -> Standing:
        seen = self._seen(node, owner)
        if seen is not None:
            return seen
        kind = PartialObjectMetadata.of(await self._mapper.kind(owner.api_version, owner.kind))
        if kind.__api__.namespaced and node.key.namespace is None:
            return Standing.INVALID
        namespace = node.key.namespace if kind.__api__.namespaced else None
        try:
            found = await self._client.get(kind, owner.name, namespace=namespace)
        except NotFound:
            return Standing.ABSENT
        if found.metadata.uid != owner.uid:
            return Standing.ABSENT
        going = found.metadata.deletion_timestamp is not None and FOREGROUND in found.metadata.finalizers
        return Standing.WAITING if going else Standing.SOLID

    async def _delete(self, node: Node, live: PartialObjectMetadata, *, waiting: bool) -> None:
        propagation: Propagation = "Background"
        if waiting and node.dependents:
            propagation = "Foreground"
            if any(each.waits_for_dependents for each in self._graph.dependents(node)):
                live = await self._unblock(live)
        elif ORPHAN in live.metadata.finalizers:
            propagation = "Orphan"
        elif FOREGROUND in live.metadata.finalizers:
            propagation = "Foreground"
        meta = live.metadata
        with suppress(NotFound):
            await self._client.delete(
                type(live),
                meta.name,
                namespace=meta.namespace or None,
                uid=meta.uid,
                resource_version=meta.resource_version,
                propagation=propagation,
            )
            _log.debug("Deleted object without owners", extra={"kind": live.__api__.kind, "object": str(node.key)})

    async def _unblock(self, live: PartialObjectMetadata) -> PartialObjectMetadata:
        """In a circle of owners that wait for each other, this one holds none of them up."""
        references = [
            msgspec.structs.replace(each, block_owner_deletion=False) for each in live.metadata.owner_references
        ]
        return await self._patch(live, {"ownerReferences": msgspec.to_builtins(references)}) or live

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

    async def _patch(self, live: PartialObjectMetadata, change: dict[str, object]) -> PartialObjectMetadata | None:
        version = {"uid": live.metadata.uid, "resourceVersion": live.metadata.resource_version}
        try:
            return await self._client.patch(live, MergePatch({"metadata": {**version, **change}}))
        except NotFound:
            return None
