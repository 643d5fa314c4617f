"""Strategic merge patches."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.machinery.errors import BadRequest, InternalError
from kubewright_controlplane.schema.ownership.strategic import strategic_merge_patch
from kubewright_controlplane.schema.structural.schema import Schema


def patched(thing: Schema, spec: Any, patch: Any) -> Any:
    return strategic_merge_patch({"spec": spec}, {"spec": patch}, thing)["spec"]


def containers(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "image": f"{name}:1"} for name in names]


def test_items_are_merged_by_key(thing: Schema) -> None:
    after = patched(thing, {"containers": containers("a", "b")}, {"containers": [{"name": "b", "image": "b:2"}]})
    assert after == {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]}


def test_a_new_item_is_added(thing: Schema) -> None:
    after = patched(thing, {"containers": containers("a")}, {"containers": [{"name": "b"}]})
    assert after == {"containers": [{"name": "b"}, {"name": "a", "image": "a:1"}]}


def test_an_item_can_be_deleted(thing: Schema) -> None:
    after = patched(thing, {"containers": containers("a", "b")}, {"containers": [{"$patch": "delete", "name": "a"}]})
    assert after == {"containers": containers("b")}


def test_a_list_can_be_replaced(thing: Schema) -> None:
    after = patched(thing, {"containers": containers("a", "b")}, {"containers": [{"$patch": "replace"}, {"name": "c"}]})
    assert after == {"containers": [{"name": "c"}]}


def test_a_map_can_be_replaced_or_emptied(thing: Schema) -> None:
    spec = {"nodeSelector": {"a": "1"}, "replicas": 1}
    assert patched(thing, spec, {"nodeSelector": {"$patch": "replace", "b": "2"}})["nodeSelector"] == {"b": "2"}
    assert patched(thing, spec, {"nodeSelector": {"$patch": "delete"}})["nodeSelector"] == {}
    assert patched(thing, spec, {"nodeSelector": {"b": "2", "a": None}})["nodeSelector"] == {"b": "2"}


def test_lists_without_a_merge_strategy_are_replaced(thing: Schema) -> None:
    before = {"containers": [{"name": "a", "command": ["x", "y"]}]}
    after = patched(thing, before, {"containers": [{"name": "a", "command": ["z"]}]})
    assert after == {"containers": [{"name": "a", "command": ["z"]}]}


def test_lists_of_strings_are_merged_and_items_deleted(thing: Schema) -> None:
    before = {"metadata": {"finalizers": ["a", "b"]}}
    more = strategic_merge_patch(before, {"metadata": {"finalizers": ["c", "b"]}}, thing)
    assert sorted(more["metadata"]["finalizers"]) == ["a", "b", "c"]
    fewer = strategic_merge_patch(before, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}, thing)
    assert fewer == {"metadata": {"finalizers": ["b"]}}


def test_set_element_order_keeps_items_of_others_in_place(thing: Schema) -> None:
    before = {"containers": containers("a", "other", "b")}
    patch = {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "new"}, {"name": "a"}],
        "containers": [{"name": "new"}],
    }
    names = [each["name"] for each in patched(thing, before, patch)["containers"]]
    assert [name for name in names if name != "other"] == ["b", "new", "a"]
    assert set(names) == {"a", "b", "new", "other"}


def test_set_element_order_alone_only_reorders(thing: Schema) -> None:
    after = patched(
        thing, {"containers": containers("a", "b")}, {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}
    )
    assert after == {"containers": containers("b", "a")}


def test_a_new_item_takes_the_position_of_a_deleted_one(thing: Schema) -> None:
    patch = {
        "$setElementOrder/containers": [{"name": "new"}],
        "containers": [{"name": "old", "$patch": "delete"}, {"name": "new"}],
    }
    after = patched(thing, {"containers": containers("a", "old")}, patch)
    assert [each["name"] for each in after["containers"]] == ["a", "new"]


def test_an_order_that_contradicts_the_changes_is_rejected(thing: Schema) -> None:
    patch = {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}
    with pytest.raises(InternalError, match="doesn't match"):
        patched(thing, {"containers": containers("a")}, patch)


def test_retain_keys_drops_other_keys(thing: Schema) -> None:
    before = {"strategy": {"type": "Rolling", "rolling": {"a": "1"}}}
    after = patched(thing, before, {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}})
    assert after == {"strategy": {"type": "Recreate"}}
    with pytest.raises(BadRequest, match="retainKeys"):
        patched(thing, before, {"strategy": {"$retainKeys": [], "type": "Recreate"}})


def test_an_item_without_its_merge_key_is_rejected(thing: Schema) -> None:
    with pytest.raises(InternalError, match="does not contain declared merge key: name"):
        patched(thing, {"containers": containers("a")}, {"containers": [{"image": "x"}]})


def test_patching_changes_neither_document_nor_patch(thing: Schema) -> None:
    doc = {"spec": {"containers": containers("a"), "strategy": {"type": "x"}}}
    patch = {"spec": {"containers": [{"name": "a", "image": "2"}], "strategy": {"$retainKeys": ["type"], "type": "y"}}}
    strategic_merge_patch(doc, patch, thing)
    assert doc == {"spec": {"containers": containers("a"), "strategy": {"type": "x"}}}
    assert patch["spec"]["strategy"] == {"$retainKeys": ["type"], "type": "y"}
