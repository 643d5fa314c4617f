"""Predicates, and the requests that events lead to."""

import msgspec
import pytest

from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import ConfigMap, Node
from kubewright.cache import Entry, Event, ObjectKey
from kubewright.cache._entry import EntryDecoder
from kubewright.controllers._controller import enqueue_object, enqueue_owner
from kubewright.controllers._reconcile import Request
from kubewright.controllers.predicates import (
    Predicate,
    annotations_changed,
    changed,
    generation_changed,
    labels_changed,
    resource_version_changed,
)

KEY = ObjectKey("shop", "web")
DECODER = EntryDecoder(ConfigMap, keep_managed_fields=False)


def entry(**metadata: object) -> Entry[ConfigMap]:
    """Return the cache entry of a document with this metadata."""
    document = {"metadata": {"name": "web", "namespace": "shop", "generation": 1, "resourceVersion": "1"} | metadata}
    return DECODER.decode(msgspec.Raw(msgspec.json.encode(document)))


def update(old: Entry[ConfigMap], new: Entry[ConfigMap]) -> Event[ConfigMap]:
    return Event("update", KEY, old, new)


def added(new: Entry[ConfigMap]) -> Event[ConfigMap]:
    return Event("add", KEY, None, new)


def deleted(old: Entry[ConfigMap]) -> Event[ConfigMap]:
    return Event("delete", KEY, old, None)


CHANGES = {
    "generation": update(entry(), entry(generation=2)),
    "deletion": update(entry(), entry(deletionTimestamp="2026-01-01T00:00:00Z")),
    "labels": update(entry(), entry(labels={"a": "b"})),
    "annotations": update(entry(), entry(annotations={"a": "b"})),
    "version": update(entry(), entry(resourceVersion="2")),
    "nothing": update(entry(), entry()),
}


@pytest.mark.parametrize(
    ("predicate", "passing"),
    [
        (generation_changed, {"generation", "deletion"}),
        (labels_changed, {"labels"}),
        (annotations_changed, {"annotations"}),
        (resource_version_changed, {"version"}),
        (changed(lambda config_map: config_map.metadata.labels.get("a")), {"labels"}),
        (changed(lambda config_map: config_map.metadata.labels.get("b")), set()),
        (generation_changed | labels_changed, {"generation", "deletion", "labels"}),
        (generation_changed & labels_changed, set()),
        (~labels_changed, {"generation", "deletion", "annotations", "version", "nothing"}),
    ],
)
def test_an_update_passes_if_the_predicates_field_changed(predicate: Predicate, passing: set[str]) -> None:
    assert {name for name, event in CHANGES.items() if predicate(event)} == passing


@pytest.mark.parametrize("predicate", [generation_changed, labels_changed, annotations_changed])
def test_adds_and_deletes_pass(predicate: Predicate) -> None:
    assert predicate(added(entry()))
    assert predicate(deleted(entry()))


def owner(kind: str, name: str, *, api_version: str = "apps/v1", controller: bool = True) -> dict[str, object]:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": name, "controller": controller}


def test_an_event_of_the_object_itself_enqueues_it() -> None:
    assert list(enqueue_object(added(entry()))) == [Request("shop", "web")]


@pytest.mark.parametrize(
    ("owners", "requests"),
    [
        ([owner("Deployment", "a")], [Request("shop", "a")]),
        ([owner("Deployment", "a", api_version="apps/v1beta1")], [Request("shop", "a")]),
        ([owner("Deployment", "a", api_version="other/v1")], []),
        ([owner("ReplicaSet", "a")], []),
        ([owner("Deployment", "a", controller=False)], []),
        ([owner("ReplicaSet", "x", controller=False), owner("Deployment", "a")], [Request("shop", "a")]),
        ([], []),
    ],
)
def test_an_event_of_a_child_enqueues_its_controlling_owner(
    owners: list[dict[str, object]], requests: list[Request]
) -> None:
    assert list(enqueue_owner(Deployment)(added(entry(ownerReferences=owners)))) == requests


def test_a_change_of_the_owner_enqueues_both_owners() -> None:
    old, new = entry(ownerReferences=[owner("Deployment", "a")]), entry(ownerReferences=[owner("Deployment", "b")])
    assert list(enqueue_owner(Deployment)(update(old, new))) == [Request("shop", "a"), Request("shop", "b")]
    assert list(enqueue_owner(Deployment)(update(old, old))) == [Request("shop", "a")]


def test_a_cluster_scoped_owner_is_enqueued_without_a_namespace() -> None:
    child = entry(ownerReferences=[owner("Node", "n1", api_version="v1")])
    assert list(enqueue_owner(Node)(added(child))) == [Request(None, "n1")]
