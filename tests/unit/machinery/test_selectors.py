"""Selectors match, and survive a round trip through text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.machinery.selectors import FieldSelector, Selector

LABELS = {"app": "web", "tier": "front", "n": "5"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True), ("app=web", True), ("app==web", True), ("app=other", False), ("app!=other", True),
        ("none!=x", True), ("app in (web,other)", True), ("app notin (web)", False), ("none notin (x)", True),
        ("app", True), ("!app", False), ("!none", True), ("n>4", True), ("n<5", False), ("app>1", False),
        ("app=web,tier=front", True), ("app=web,tier=back", False), (" app = web , tier in ( front ) ", True),
        ("none=", False), ("none in ()", False),
    ],
)  # fmt: skip
def test_a_label_selector_matches(text: str, matches: bool) -> None:
    selector = Selector.parse(text)
    assert selector.matches(LABELS) is matches
    assert Selector.parse(str(selector)) == selector


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a,", "found '', expected: identifier after ','"),
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("a!b", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
        ("a>b", "for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("-a=b", "name part must consist of alphanumeric characters"),
    ],
)
def test_an_invalid_label_selector_is_rejected(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=r"found|values|key|Invalid") as refused:
        Selector.parse(text)
    assert fault in str(refused.value)


def test_a_selector_of_an_object() -> None:
    spec: dict[str, Any] = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["front", "back"]},
            {"key": "x", "operator": "DoesNotExist"},
        ],
    }
    selector = Selector.from_dict(spec)
    assert str(selector) == "app=web,tier in (back,front),!x"
    assert selector.matches(LABELS)
    assert Selector.from_dict({}).matches({})
    assert not Selector.from_dict(None).matches({})
    with pytest.raises(ValueError, match='"Is" is not a valid label selector operator'):
        Selector.from_dict({"matchExpressions": [{"key": "a", "operator": "Is"}]})


def test_a_field_selector_matches_absent_fields_as_empty() -> None:
    selector = FieldSelector.parse("status.phase!=Running,metadata.name=a")
    assert selector.exact("metadata.name") == "a"
    assert selector.exact("status.phase") is None
    assert selector.matches({"metadata.name": "a"})
    assert not selector.matches({"metadata.name": "a", "status.phase": "Running"})
    assert FieldSelector.parse("").empty


@pytest.mark.parametrize("text", ["a", "a=b=c", r"a=\x", "a=\\"])
def test_an_invalid_field_selector_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="invalid"):
        FieldSelector.parse(text)


@given(st.dictionaries(st.from_regex(r"[a-z.]{1,8}", fullmatch=True), st.text(min_size=1), max_size=3))
def test_any_value_of_a_field_can_be_written_and_read(fields: dict[str, str]) -> None:
    def escape(text: str) -> str:
        return text.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")

    selector = FieldSelector.parse(",".join(f"{name}={escape(value)}" for name, value in fields.items()))
    assert {each.field: each.value for each in selector.requirements} == fields
    assert FieldSelector.parse(str(selector)) == selector


SELECTOR_VALUES = st.sampled_from(["", "a", "b", "1", "2", "10"])
TERMS = st.one_of(
    st.builds("{}={}".format, st.sampled_from("kl"), SELECTOR_VALUES),
    st.builds("{}!={}".format, st.sampled_from("kl"), SELECTOR_VALUES),
    st.builds("{} in ({})".format, st.sampled_from("kl"), st.lists(SELECTOR_VALUES, min_size=1).map(",".join)),
    st.builds("{} notin ({})".format, st.sampled_from("kl"), st.lists(SELECTOR_VALUES, min_size=1).map(",".join)),
    st.builds("{}{}{}".format, st.sampled_from("kl"), st.sampled_from("<>"), st.sampled_from(["1", "5", "0"])),
    st.sampled_from(["k", "!k", "l", "!l"]),
)


@given(
    st.lists(TERMS, min_size=1, max_size=12),
    st.dictionaries(st.sampled_from("klm"), st.sampled_from(["", "a", "1", "2", "10"])),
)
def test_a_compiled_selector_matches_what_it_matches_term_by_term(terms: list[str], labels: dict[str, str]) -> None:
    selector = Selector.parse(",".join([*terms, *(f"other{each}!=x" for each in range(9))]))
    assert selector.matcher()(labels) == selector.matches(labels)


@given(
    st.lists(st.sampled_from(["f=a", "f!=a", "f=b", "g!=b", "g=", "h!="]), max_size=12),
    st.dictionaries(st.sampled_from("fgh"), st.sampled_from(["", "a", "b"])),
)
def test_a_compiled_field_selector_matches_what_it_matches_term_by_term(
    terms: list[str], fields: dict[str, str]
) -> None:
    selector = FieldSelector.parse(",".join([*terms, *(f"f!={each}" for each in range(9))]))
    assert selector.matcher()(fields) == selector.matches(fields)


def test_a_long_selector_costs_as_much_as_the_labels() -> None:
    """Fails by its time limit if each requirement is compared with each object: that takes minutes."""
    denied = Selector.parse(",".join(f"k{each}!=v" for each in range(5000))).matcher()
    one_key = Selector.parse(",".join(f"k!=v{each}" for each in range(5000))).matcher()
    named = FieldSelector.parse(",".join(f"metadata.name!=v{each}" for each in range(5000))).matcher()
    for each in range(20_000):
        assert denied({"app": "web"})
        assert one_key({"k": "other"})
        assert named({"metadata.name": f"n{each}"})
