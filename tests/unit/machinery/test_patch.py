"""Patches have the same effect as on the API server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.machinery.errors import BadRequest, Invalid, RequestTooLarge
from kubewright.machinery.json import equal
from kubewright.machinery.patch import create_json_patch, create_merge_patch, json_patch, merge_patch

values = st.recursive(
    st.one_of(st.booleans(), st.integers(-3, 3), st.text("ab", max_size=2)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("abc~/", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
documents = st.dictionaries(st.text("abc", max_size=2), values, max_size=4)


def test_a_merge_patch_merges_objects_and_replaces_the_rest() -> None:
    doc = {"a": {"b": 1, "c": 2}, "list": [1, 2], "gone": 1}
    assert merge_patch(doc, {"a": {"b": None, "d": {"e": None, "f": 1}}, "list": [3], "gone": None}) == {
        "a": {"c": 2, "d": {"f": 1}},
        "list": [3],
    }
    assert doc == {"a": {"b": 1, "c": 2}, "list": [1, 2], "gone": 1}


@given(documents, documents)
def test_the_merge_patch_between_two_documents_turns_one_into_the_other(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert equal(merge_patch(old, create_merge_patch(old, new)), new)
    assert create_merge_patch(new, new) == {}


@pytest.mark.parametrize(
    ("operations", "after"),
    [
        ([{"op": "add", "path": "/b", "value": 1}], {"a": [1, 2, 3], "b": 1, "m": {"x/y": {"~": 1}}}),
        ([{"op": "add", "path": "/a/-", "value": 4}], {"a": [1, 2, 3, 4], "m": {"x/y": {"~": 1}}}),
        ([{"op": "add", "path": "/a/0", "value": 0}], {"a": [0, 1, 2, 3], "m": {"x/y": {"~": 1}}}),
        ([{"op": "remove", "path": "/a/-1"}], {"a": [1, 2], "m": {"x/y": {"~": 1}}}),
        ([{"op": "replace", "path": "/m/x~1y/~0", "value": 2}], {"a": [1, 2, 3], "m": {"x/y": {"~": 2}}}),
        ([{"op": "replace", "path": "/new", "value": 2}], {"a": [1, 2, 3], "m": {"x/y": {"~": 1}}, "new": 2}),
        ([{"op": "move", "from": "/a", "path": "/b"}], {"b": [1, 2, 3], "m": {"x/y": {"~": 1}}}),
        ([{"op": "copy", "from": "/a/0", "path": "/b"}], {"a": [1, 2, 3], "b": 1, "m": {"x/y": {"~": 1}}}),
        ([{"op": "copy", "from": "/none", "path": "/b"}], {"a": [1, 2, 3], "b": None, "m": {"x/y": {"~": 1}}}),
        ([{"op": "test", "path": "/a/1", "value": 2}, {"op": "remove", "path": "/m"}], {"a": [1, 2, 3]}),
        ([{"op": "test", "path": "/none", "value": None}], {"a": [1, 2, 3], "m": {"x/y": {"~": 1}}}),
        ([{"op": "replace", "path": "", "value": {"z": 1}}], {"z": 1}),
    ],
)
def test_a_json_patch_applies(operations: list[dict[str, Any]], after: dict[str, Any]) -> None:
    doc = {"a": [1, 2, 3], "m": {"x/y": {"~": 1}}}
    before = json.dumps(doc)
    assert json_patch(doc, operations) == after
    assert json.dumps(doc) == before


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/a", "value": True},
        {"op": "remove", "path": "/none"},
        {"op": "add", "path": "/none/deeper", "value": 1},
        {"op": "add", "path": "/list/9", "value": 1},
        {"op": "replace", "path": "/list/9", "value": 1},
        {"op": "remove", "path": "/list/x"},
        {"op": "move", "from": "/none", "path": "/b"},
        {"op": "nonsense", "path": "/a"},
        {"op": "add", "value": 1},
    ],
)
def test_a_json_patch_that_does_not_apply_changes_nothing(operation: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="the server rejected our request due to an error in our request") as refused:
        json_patch({"a": 1, "list": [1]}, [{"op": "add", "path": "/b", "value": 1}, operation])
    assert str(refused.value.__cause__)


def test_an_invalid_json_patch_is_a_bad_request() -> None:
    with pytest.raises(BadRequest):
        json_patch({}, {"op": "add"})
    with pytest.raises(RequestTooLarge, match="allowed maximum operations in a JSON patch is 10000, got 10001"):
        json_patch({}, [{"op": "test", "path": "/a", "value": None}] * 10_001)


pointers = st.lists(st.sampled_from(["a", "b", "0", "-"]), max_size=3).map(
    lambda parts: "".join(f"/{p}" for p in parts)
)
operations = st.one_of(
    st.fixed_dictionaries({"op": st.sampled_from(["add", "replace"]), "path": pointers, "value": values}),
    st.fixed_dictionaries({"op": st.just("remove"), "path": pointers}),
    st.fixed_dictionaries({"op": st.sampled_from(["move", "copy"]), "from": pointers, "path": pointers}),
)


@given(documents, st.lists(operations, min_size=2, max_size=8))
def test_operations_of_one_patch_do_what_they_do_one_by_one(doc: dict[str, Any], patch: list[dict[str, Any]]) -> None:
    before, given = json.dumps(doc), json.dumps(patch)
    applied: list[dict[str, Any]] = []
    expected = doc
    for operation in patch:
        try:
            expected = json_patch(expected, [operation])
        except Invalid:
            continue
        applied.append(operation)
    assert equal(json_patch(doc, applied), expected)
    assert (json.dumps(doc), json.dumps(patch)) == (before, given)


def test_many_operations_on_a_large_document_are_cheap() -> None:
    """Each operation once copied the whole document, which took minutes here."""
    doc = {"map": dict.fromkeys(map(str, range(200_000)), 1), "list": list(range(200_000))}
    patch = [{"op": "add", "path": f"/map/n{index}", "value": 1} for index in range(5000)]
    patch += [{"op": "add", "path": "/list/-", "value": 1}] * 5000
    after = json_patch(doc, patch)
    assert (len(after["map"]), len(after["list"])) == (205_000, 205_000)
    assert (len(doc["map"]), len(doc["list"])) == (200_000, 200_000)


@pytest.mark.parametrize("key", ["0_1", "٣", " 1", "1 ", "", "9" * 5000])
def test_an_index_is_a_plain_number(key: str) -> None:
    with pytest.raises(Invalid):
        json_patch({"list": [1, 2, 3, 4]}, [{"op": "add", "path": f"/list/{key}", "value": 1}])


def test_a_path_has_a_limit() -> None:
    with pytest.raises(Invalid) as refused:
        json_patch({}, [{"op": "add", "path": "/a" * 1_000_000, "value": 1}])
    assert str(refused.value.__cause__) == "add operation: path has more than 10000 parts"


def test_copies_in_a_patch_are_limited() -> None:
    double = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 60
    with pytest.raises(Invalid) as refused:
        json_patch({"a": ["x" * 100]}, double)
    assert "bytes were copied" in str(refused.value.__cause__)


@given(documents, documents)
def test_a_created_json_patch_turns_one_document_into_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    patch = create_json_patch(old, new)
    assert equal(json_patch(old, patch), new)
    assert bool(patch) is not equal(old, new)


def test_a_created_json_patch_leaves_the_ends_of_lists_alone() -> None:
    old = {"list": [{"a": 1}, {"b": 1}, {"c": 1}]}
    assert create_json_patch(old, {"list": [{"a": 1}, {"b": 2}, {"x": 1}, {"c": 1}]}) == [
        {"op": "replace", "path": "/list/1/b", "value": 2},
        {"op": "add", "path": "/list/2", "value": {"x": 1}},
    ]
    assert create_json_patch(old, {"list": [{"c": 1}]}) == [
        {"op": "remove", "path": "/list/1"},
        {"op": "remove", "path": "/list/0"},
    ]
