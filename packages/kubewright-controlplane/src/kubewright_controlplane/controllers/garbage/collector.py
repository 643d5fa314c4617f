"""Acts on the graph of owners: deletes dependents, orphans them, and finishes foreground deletions.

Guarantees
    An object is deleted only if each of its owners is being deleted or no longer exists: either its deletion was
    observed, or no watch has seen it and the API server does not find it (or another object has its name). The
    owners are read from the server, and the object's UID and resource version are preconditions of the delete.
    A crash loses nothing: the graph is built again from the objects, and all work follows from the graph.
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
from kubewright.controllers import EventRecorder, QueueClosed, Request, WorkQueue
from kubewright.machinery.errors import Conflict, KubewrightError, NotFound
from kubewright_controlplane.controllers.garbage.graph import FOREGROUND, ORPHAN, Graph, Node

_log: Final = logging.getLogger(__name__)


_RECHECK: Final = timedelta(seconds=1)
"""The pause before an object is checked again whose owner no watch has seen yet."""


class OwnerState(Enum):
    """The state of an owner."""

    EXISTS = auto()
    """The owner exists."""
    WAITING = auto()
    """The owner is being deleted in the foreground, after its dependents."""
    ABSENT = auto()
    INVALID = auto()
    """A cluster-scoped object can't be owned by a namespaced one, so the owner is unknown."""


class Collector:
    """Takes UIDs from the queue, and acts on their nodes in the graph."""

    def __init__(
        self, client: Client, mapper: RESTMapper, graph: Graph, queue: WorkQueue, events: EventRecorder
    ) -> None:
        self._client = client
        self._events = events
        self._mapper = mapper
        self._graph = graph
        self._queue = queue

    def ask(self, node: Node) -> None:
        """Check this object soon."""
        self._queue.add(Request(None, node.uid))

    async def work(self) -> None:
        """Work until the queue is closed. An error affects one object, which is retried with backoff."""
        while True:
            try:
                async with self._queue.take() as request:
                    await self._process(request.name)
            except QueueClosed:
                return
            except Conflict:
                continue
            except KubewrightError as error:
                _log.warning("Garbage collection failed", extra={"error": str(error)})

    async def _process(self, uid: str) -> None:
        node = self._graph.get(uid)
        if node is None or node.kind is None:
            return
        if node.deleting:
            await self._finish(node)
        elif node.owners:
            await self._check_owners(node)

    async def _finish(self, node: Node) -> None:
        """Continue a deletion that waits for this collector's finalizers."""
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

    async def _check_owners(self, node: Node) -> None:
        """Delete an object without owners, or remove owners that no longer exist if another one does."""
        if all(self._observed_state(node, owner) is OwnerState.EXISTS for owner in node.owners):
            return
        live = await self._live(node)
        if live is None or not live.metadata.owner_references:
            return
        owners = live.metadata.owner_references
        states = {owner.uid: await self._state_of(node, owner) for owner in owners}
        if OwnerState.INVALID in states.values():
            return
        gone = {uid for uid, state in states.items() if state is not OwnerState.EXISTS}
        self._report_foreign_owners(node, live)
        if len(gone) == len(states):
            await self._delete(node, live, waiting=OwnerState.WAITING in states.values())
        elif gone:
            await self._disown(node, gone)
        elif any(self._observed_state(node, owner) is None for owner in owners):
            # the owner's deletion would not be observed before its kind is watched
            self._queue.add(Request(None, node.uid), after=_RECHECK)

    def _report_foreign_owners(self, node: Node, live: PartialObjectMetadata) -> None:
        for owner in live.metadata.owner_references:
            seen = self._graph.get(owner.uid)
            if seen is None or seen.kind is None or seen.key.namespace in (None, node.key.namespace):
                continue
            where = f"{owner.api_version}/{owner.kind}, namespace: {node.key.namespace}"
            note = f"ownerRef [{where}, name: {owner.name}, uid: {owner.uid}] does not exist in namespace"
            self._events.warning(live, "OwnerRefInvalidNamespace", f'{note} "{node.key.namespace or ""}"')

    def _observed_state(self, node: Node, owner: OwnerReference) -> OwnerState | None:
        """Return the state of an owner in the graph; None if only the API server knows it."""
        seen = self._graph.get(owner.uid)
        if seen is None:
            return None
        if seen.kind is None:
            return OwnerState.ABSENT if seen.gone else None
        named = (seen.kind.__api__.kind, seen.key.name) == (owner.kind, owner.name)
        if not named or seen.key.namespace not in (None, node.key.namespace):
            return None  # a reference identifies an object by UID, kind, name and its own namespace: all must match
        return OwnerState.WAITING if seen.waits_for_dependents else OwnerState.EXISTS

    async def _state_of(self, node: Node, owner: OwnerReference) -> OwnerState:
        seen = self._observed_state(node, owner)
        if seen is not None:
            return seen
        kind = PartialObjectMetadata.of(await self._mapper.kind(owner.api_version, owner.kind))
        if kind.__api__.namespaced and node.key.namespace is None:
            return OwnerState.INVALID
        namespace = node.key.namespace if kind.__api__.namespaced else None
        try:
            found = await self._client.get(kind, owner.name, namespace=namespace)
        except NotFound:
            return OwnerState.ABSENT
        if found.metadata.uid != owner.uid:
            return OwnerState.ABSENT
        going = found.metadata.deletion_timestamp is not None and FOREGROUND in found.metadata.finalizers
        return OwnerState.WAITING if going else OwnerState.EXISTS

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
            _log.debug("Object deleted", extra={"kind": live.__api__.kind, "object": str(node.key)})

    async def _unblock(self, live: PartialObjectMetadata) -> PartialObjectMetadata:
        """Unblock a cycle of owners that wait for each other."""
        references = [
            msgspec.structs.replace(each, block_owner_deletion=False) for each in live.metadata.owner_references
        ]
        return await self._patch(live, {"ownerReferences": msgspec.to_builtins(references)}) or live

    async def _disown(self, node: Node, owners: set[str]) -> None:
        """Remove owner references from an object."""
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
        """Return the current object; None if it no longer exists or another object has its name."""
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
