"""Operations on field sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubewright_controlplane.schema.ownership.fieldset import FieldSet

elements = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
members = st.lists(elements, min_size=1, max_size=3).map(tuple)


def set_of(paths: set[tuple[str, ...]]) -> FieldSet:
    found = FieldSet()
    for path in paths:
        tree: dict[str, dict] = {}
        for element in reversed(path):
            tree = {element: tree}
        found |= FieldSet(tree)
    return found


sets = st.sets(members, max_size=6)


@given(sets, sets)
def test_field_sets_support_set_operations(left: set[tuple[str, ...]], right: set[tuple[str, ...]]) -> None:
    a, b = set_of(left), set_of(right)
    assert a | b == set_of(left | right)
    assert a & b == set_of(left & right)
    assert a - b == set_of(left - right)
    assert bool(a) == bool(left)


@given(sets, sets)
def test_without_also_removes_fields_below(left: set[tuple[str, ...]], right: set[tuple[str, ...]]) -> None:
    kept = {path for path in left if not any(path[: len(cut)] == cut for cut in right)}
    assert set_of(left).without(set_of(right)) == set_of(kept)


@given(sets)
def test_a_set_round_trips_through_fields_v1(paths: set[tuple[str, ...]]) -> None:
    written = set_of(paths).to_fields_v1()
    assert FieldSet.from_fields_v1(written) == set_of(paths)
    assert len(list(set_of(paths))) == len(paths)


def test_fields_are_named_as_in_conflicts() -> None:
    fields = FieldSet.from_fields_v1(
        {"f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}}, "f:finalizers": {'v:"x"': {}}}}
    )
    assert list(fields) == [
        '.spec.containers[name="web"]',
        '.spec.containers[name="web"].image',
        '.spec.finalizers[="x"]',
    ]
    assert '.spec.finalizers[="x"]' in fields
