"""The graph of owners and dependents."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from kubewright.apis.core.v1 import ConfigMap
from kubewright.cache._entry import Entry, EntryDecoder
from kubewright.client._dynamic import PartialObjectMetadata
from kubewright_controlplane.controllers.garbage.graph import FOREGROUND, Graph, Node

KIND = PartialObjectMetadata.of(ConfigMap)


def entry(uid: str, *owners: str, blocking: bool = True, **metadata: Any) -> Entry[PartialObjectMetadata]:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": each, "uid": each, "blockOwnerDeletion": blocking}
        for each in owners
    ]
    document = {"metadata": {"name": uid, "namespace": "d", "uid": uid, "ownerReferences": references, **metadata}}
    decoder = EntryDecoder(KIND, keep_managed_fields=False)
    return decoder.decode(msgspec.Raw(json.dumps(document).encode()))


def uids(nodes: list[Node]) -> set[str]:
    return {node.uid for node in nodes}


def test_an_owner_that_was_never_observed_is_an_unknown_node() -> None:
    graph = Graph()
    graph.put(KIND, entry("child", "owner"))
    owner = graph.get("owner")
    assert owner is not None
    assert not owner.known
    assert uids(graph.dependents(owner)) == {"child"}


def test_an_unknown_owner_is_removed_with_its_last_dependent() -> None:
    graph = Graph()
    graph.put(KIND, entry("child", "owner"))
    graph.put(KIND, entry("child"))
    assert graph.get("owner") is None


def test_dependents_stay_when_their_owner_is_deleted() -> None:
    graph = Graph()
    graph.put(KIND, entry("owner"))
    graph.put(KIND, entry("child", "owner"))
    gone = graph.remove("owner")
    assert gone is not None
    assert not gone.known
    assert uids(graph.dependents(gone)) == {"child"}
    graph.remove("child")
    assert len(graph) == 0


def test_an_object_moves_with_a_change_of_its_owners() -> None:
    graph = Graph()
    graph.put(KIND, entry("a"))
    graph.put(KIND, entry("b"))
    graph.put(KIND, entry("child", "a"))
    graph.put(KIND, entry("child", "b"))
    a, b = graph.get("a"), graph.get("b")
    assert a is not None
    assert b is not None
    assert (uids(graph.dependents(a)), uids(graph.dependents(b))) == (set(), {"child"})


def test_only_blocking_dependents_delay_a_foreground_deletion() -> None:
    graph = Graph()
    owner = graph.put(KIND, entry("owner", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[FOREGROUND]))
    graph.put(KIND, entry("blocking", "owner"))
    graph.put(KIND, entry("other", "owner", blocking=False))
    assert owner.waits_for_dependents
    assert uids(graph.blocking(owner)) == {"blocking"}


def test_objects_of_a_kind_are_found() -> None:
    graph = Graph()
    graph.put(KIND, entry("a", "ghost"))
    assert uids(graph.of_kind(KIND.__api__)) == {"a"}
