"""Who owns whom, over all kinds: a graph of objects by uid, kept up by watches.

An owner that is named and was never seen stands in the graph as a node without an object (`known` is False): whether it
exists has to be asked of the API server before anything is deleted because of it.
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
    """One object, as far as ownership goes."""

    uid: str
    kind: type[PartialObjectMetadata] | None = None
    """The class to write it by; None for an owner that was not seen yet."""
    key: ObjectKey = _NOWHERE
    owners: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    gone: bool = False
    """Its deletion was seen. A uid does not come back."""
    dependents: set[str] = field(default_factory=set[str])

    @property
    def known(self) -> bool:
        return self.kind is not None

    @property
    def waits_for_dependents(self) -> bool:
        return self.deleting and FOREGROUND in self.finalizers

    @property
    def lets_go_of_dependents(self) -> bool:
        return self.deleting and ORPHAN in self.finalizers


class Graph:
    """All objects that own or are owned, or may be."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, uid: str) -> Node | None:
        return self._nodes.get(uid)

    def put(self, kind: type[PartialObjectMetadata], entry: Entry[PartialObjectMetadata]) -> Node:
        """Take in an object as it is now. Only one that is owned or being deleted is worth decoding."""
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
        """Take out an object that is gone, or with `gone=False` one that can't be seen any more.

        What it owned stays, without it.
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
        """The objects of a kind that are known."""
        return [node for node in self._nodes.values() if node.kind is not None and node.kind.__api__ == api]

    def dependents(self, node: Node) -> list[Node]:
        return [self._nodes[uid] for uid in node.dependents if uid in self._nodes]

    def blocking(self, node: Node) -> list[Node]:
        """Dependents that a foreground deletion of `node` waits for."""
        return [
            each
            for each in self.dependents(node)
            if any(owner.uid == node.uid and owner.block_owner_deletion for owner in each.owners)
        ]

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
