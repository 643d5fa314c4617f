"""Who owns whom."""

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


def test_an_owner_that_was_never_seen_stands_there_unknown() -> None:
    graph = Graph()
    graph.put(KIND, entry("child", "owner"))
    owner = graph.get("owner")
    assert owner is not None
    assert not owner.known
    assert uids(graph.dependents(owner)) == {"child"}


def test_it_is_forgotten_with_the_last_that_named_it() -> None:
    graph = Graph()
    graph.put(KIND, entry("child", "owner"))
    graph.put(KIND, entry("child"))
    assert graph.get("owner") is None


def test_an_owner_that_goes_leaves_what_it_owned() -> None:
    graph = Graph()
    graph.put(KIND, entry("owner"))
    graph.put(KIND, entry("child", "owner"))
    gone = graph.remove("owner")
    assert gone is not None
    assert not gone.known
    assert uids(graph.dependents(gone)) == {"child"}
    graph.remove("child")
    assert len(graph) == 0


def test_a_change_of_owners_moves_an_object() -> None:
    graph = Graph()
    graph.put(KIND, entry("a"))
    graph.put(KIND, entry("b"))
    graph.put(KIND, entry("child", "a"))
    graph.put(KIND, entry("child", "b"))
    a, b = graph.get("a"), graph.get("b")
    assert a is not None
    assert b is not None
    assert (uids(graph.dependents(a)), uids(graph.dependents(b))) == (set(), {"child"})


def test_only_those_that_block_hold_up_a_deletion_in_the_foreground() -> None:
    graph = Graph()
    owner = graph.put(KIND, entry("owner", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[FOREGROUND]))
    graph.put(KIND, entry("blocking", "owner"))
    graph.put(KIND, entry("other", "owner", blocking=False))
    assert owner.waits_for_dependents
    assert uids(graph.blocking(owner)) == {"blocking"}


def test_a_kind_that_is_no_longer_served_can_be_found() -> None:
    graph = Graph()
    graph.put(KIND, entry("a", "ghost"))
    assert uids(graph.of_kind(KIND.__api__)) == {"a"}
