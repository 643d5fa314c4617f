"""YAML as Kubernetes' tools read it."""

from __future__ import annotations

import pytest
import yaml as pyyaml
from hypothesis import given
from hypothesis import strategies as st

from kubewright.machinery import yaml
from kubewright.machinery.errors import DecodeError

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12)
TRICKY = st.from_regex(r"[-+]?[0-9._eExXoObB:_~=<yYnN]{1,8}", fullmatch=True)
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT | TRICKY
DOCUMENTS = st.dictionaries(
    TEXT | TRICKY,
    st.recursive(SCALARS, lambda each: st.lists(each, max_size=3) | st.dictionaries(TEXT | TRICKY, each, max_size=3)),
    max_size=4,
)

AMBIGUOUS = [
    "y", "n", "Y", "N", "yes", "No", "on", "OFF", "true", "False", "null", "~", "", "1", "-1", "+1", "1_000", "0o14",
    "014", "0b11", "0x1F", "1e3", "1E+3", ".5", "5.", "1.5", ".inf", "-.INF", ".nan", "<<", "=", "12:30", "12:30:45",
    "1:2.5", "2026-01-02", "2026-01-02T03:04:05Z", "0888", "- a", "a: b", "a #b", "&a", "*a", "!a", "%a", "@a", "`a",
    "{", "[", "? a", "|", ">", " a", "a ", "a\tb", "#",
]  # fmt: skip


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_an_ambiguous_string_is_quoted(text: str) -> None:
    written = yaml.dump({"key": text, text: "value"})
    assert yaml.load(written) == {"key": text, text: "value"}
    assert pyyaml.safe_load(written) == {"key": text, text: "value"}
    assert f"key: {text}\n" not in written


@pytest.mark.parametrize("text", ["nginx:1.23.1", "web-server", "100m", "1.2.3", "apps/v1", "a b", "x=y", "default"])
def test_an_unambiguous_string_is_not_quoted(text: str) -> None:
    assert yaml.dump({"key": text}) == f"key: {text}\n"


@given(DOCUMENTS)
def test_any_document_survives_a_round_trip(document: dict[str, object]) -> None:
    assert yaml.load(yaml.dump(document)) == document


@given(DOCUMENTS)
def test_a_yaml_1_1_parser_reads_the_same_document(document: dict[str, object]) -> None:
    assert pyyaml.safe_load(yaml.dump(document)) == document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True), ("y", True), ("Off", False), ("n", False), ("1e3", 1000.0), ("0o14", 12), ("014", 12),
        ("0x1F", 31), ("-0b11", -3), ("1_000", 1000), ("12:30", "12:30"), ("2026-01-02", "2026-01-02"), ("~", None),
        ("", None), ("nginx", "nginx"), ("'1'", "1"),
    ],
)  # fmt: skip
def test_scalars_are_read_as_go_reads_them(text: str, value: object) -> None:
    assert yaml.load(f"key: {text}") == {"key": value}


def test_text_of_several_lines_is_a_block() -> None:
    assert yaml.dump({"text": "one\ntwo"}) == "text: |-\n  one\n  two\n"


def test_keys_keep_their_order_and_long_lines_are_not_folded() -> None:
    text = "word " * 100 + "end"
    assert yaml.dump({"b": text, "a": 1}) == f"a: 1\nb: {text}\n"


def test_shared_values_are_written_without_anchors() -> None:
    labels = {"app": "web"}
    assert yaml.dump({"a": labels, "b": labels}) == "a:\n  app: web\nb:\n  app: web\n"


def test_several_documents_are_read_and_written_in_order() -> None:
    documents = [{"a": 1}, {"b": 2}]
    assert list(yaml.load_all(yaml.dump(*documents) + "---\n")) == documents


def test_keys_that_are_not_strings_become_strings_as_in_json() -> None:
    assert yaml.load("{2: a, true: b, null: c}") == {"2": "a", "true": "b", "null": "c"}


@pytest.mark.parametrize(
    ("text", "message"),
    [("- a", "document 1 is a list of 1, not an object"), ("a: [", "not YAML"), ("a: 1\n---\nb: 2", "2 documents")],
)
def test_a_document_that_is_not_an_object_is_rejected(text: str, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        yaml.load(text)


def test_numbers_with_the_tag_of_floats_are_floats() -> None:
    assert yaml.load("{a: !!float 5, b: !!float 0x1F, c: !!float 014}") == {"a": 5.0, "b": 31.0, "c": 12.0}


def test_many_merged_mappings_cost_as_much_as_their_size() -> None:
    """Fails by its time limit if each merge copies what was merged before."""
    parts = ",".join(f"{{a{number}: {number}}}" for number in range(100_000))
    merged = yaml.load(f"{{a1: own, <<: [{{a2: first}}, {parts}]}}")
    assert (len(merged), merged["a1"], merged["a2"], merged["a3"]) == (100_000, "own", "first", 3)


def test_each_key_and_item_has_the_line_on_which_it_is_written() -> None:
    text = "a: 1\nb:\n  - c: {d: 1,\n      e: [x,\n       y]}\n  - f\n? g\n: h\n---\nz: 1\n"
    assert yaml.key_lines(text) == {
        ("a",): 1,
        ("b",): 2,
        ("b", 0): 3,
        ("b", 0, "c"): 3,
        ("b", 0, "c", "d"): 3,
        ("b", 0, "c", "e"): 4,
        ("b", 0, "c", "e", 0): 4,
        ("b", 0, "c", "e", 1): 5,
        ("b", 1): 6,
        ("g",): 7,
    }


def test_a_value_of_any_type_is_loaded() -> None:
    assert [yaml.load_value(text) for text in ("[1, a]", "5", "", "a: yes")] == [[1, "a"], 5, None, {"a": True}]
    with pytest.raises(DecodeError, match="has 2 documents"):
        yaml.load_value("1\n---\n2\n")
