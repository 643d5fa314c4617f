"""The graph of owners and dependents of all kinds, by UID, updated by watches.

An owner that was never observed is a node without an object (`known` is False). Before anything is deleted because of
it, the API server is asked whether it exists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kubewright.apis.meta.v1 import OwnerReference
from kubewright.cache._entry import Entry, ObjectKey
from kubewright.client._dynamic import PartialObjectMetadata
from kubewright.models import APIResource

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_NOWHERE: Final = ObjectKey(None, "")


@dataclass(slots=True, eq=False)
class Node:
    """One object and its owners."""

    uid: str
    kind: type[PartialObjectMetadata] | None = None
    """The class to write it with; None for an owner that was not observed yet."""
    key: ObjectKey = _NOWHERE
    owners: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    gone: bool = False
    """Its deletion was observed. A UID is never used again."""
    dependents: set[str] = field(default_factory=set[str])

    @property
    def known(self) -> bool:
        return self.kind is not None

    @property
    def waits_for_dependents(self) -> bool:
        return self.deleting and FOREGROUND in self.finalizers

    @property
    def blocked_owners(self) -> set[str]:
        """The UIDs of owners whose deletion in the foreground waits for this object."""
        return {owner.uid for owner in self.owners if owner.block_owner_deletion}

    @property
    def lets_go_of_dependents(self) -> bool:
        return self.deleting and ORPHAN in self.finalizers


class Graph:
    """All objects that own others or are owned."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, uid: str) -> Node | None:
        return self._nodes.get(uid)

    def put(self, kind: type[PartialObjectMetadata], entry: Entry[PartialObjectMetadata]) -> Node:
        """Add or update an object. Only an object that is owned or being deleted has to be decoded."""
        node = self._nodes.setdefault(entry.uid, Node(entry.uid))
        node.kind, node.key, node.deleting = kind, entry.key, entry.deleting
        owners: tuple[OwnerReference, ...] = ()
        if entry.owners or entry.deleting:
            metadata = entry.decode().metadata
            node.finalizers = tuple(metadata.finalizers)
            owners = tuple(metadata.owner_references)
        self._connect(node, owners)
        return node

    def remove(self, uid: str, *, gone: bool = True) -> Node | None:
        """Remove a deleted object, or with `gone=False` one that is no longer visible.

        Its dependents stay in the graph.
        """
        node = self._nodes.get(uid)
        if node is None:
            return None
        self._connect(node, ())
        node.kind, node.gone = None, gone
        if not node.dependents:
            del self._nodes[uid]
        return node

    def of_kind(self, api: APIResource) -> list[Node]:
        """Return the known objects of a kind."""
        return [node for node in self._nodes.values() if node.kind is not None and node.kind.__api__ == api]

    def dependents(self, node: Node) -> list[Node]:
        return [self._nodes[uid] for uid in node.dependents if uid in self._nodes]

    def blocking(self, node: Node) -> list[Node]:
        """Return the dependents that block a foreground deletion of `node`."""
        return [each for each in self.dependents(node) if node.uid in each.blocked_owners]

    def _connect(self, node: Node, owners: tuple[OwnerReference, ...]) -> None:
        before, after = {owner.uid for owner in node.owners}, {owner.uid for owner in owners}
        node.owners = owners
        for uid in after - before:
            self._nodes.setdefault(uid, Node(uid)).dependents.add(node.uid)
        for uid in before - after:
            owner = self._nodes.get(uid)
            if owner is not None:
                owner.dependents.discard(node.uid)
                if not owner.known and not owner.dependents:
                    del self._nodes[uid]
