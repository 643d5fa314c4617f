"""Quantities are exact, and print as the API server prints them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.machinery.quantity import Quantity

SUFFIXES = ["n", "u", "m", "", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "e3", "e-3", "E6"]
quantities = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**6),
    st.one_of(st.just(""), st.integers(0, 999).map(lambda n: f".{n}")),
    st.sampled_from(SUFFIXES),
).map(Quantity.parse)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"), ("0Ki", "0"), ("1", "1"), ("100m", "100m"), ("1500m", "1500m"), ("1000m", "1"), ("0.1", "100m"),
        ("1000", "1k"), ("1024", "1024"), ("1Ki", "1Ki"), ("1024Ki", "1Mi"), ("1.5Gi", "1536Mi"), ("0.5Ki", "512"),
        ("1.1Ki", "1126400m"), ("12e6", "12e6"), ("1e3", "1e3"), ("1E", "1E"), ("2000000000n", "2"), (".5", "500m"),
        ("5.", "5"), ("-1.5Gi", "-1536Mi"), ("0.0000000001", "1n"), ("10Ei", "9223372036854775807"),
    ],
)  # fmt: skip
def test_the_canonical_form(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


@pytest.mark.parametrize("text", ["", "1 ", "a", "1x", "1.2.3", "1iK", "1e", "--1", "1e99999999999", "NaN", "1_000"])
def test_an_invalid_quantity_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="quantit"):
        Quantity.parse(text)


def test_quantities_compare_across_suffixes() -> None:
    assert Quantity.parse("1Gi") == Quantity.parse("1024Mi") > Quantity.parse("1G")
    assert Quantity.parse("500m") < Quantity.parse("1")
    assert len({Quantity.parse("1"), Quantity.parse("1000m")}) == 1


def test_values_are_rounded_away_from_zero() -> None:
    assert Quantity.parse("1500m").value == 2
    assert Quantity.parse("-1500m").value == -2
    assert Quantity.parse("1n").milli_value == 1


def test_json_numbers_are_quantities_too() -> None:
    assert str(Quantity.of(1024)) == "1024"
    assert str(Quantity.of(0.5)) == "500m"
    with pytest.raises(ValueError, match="not True"):
        Quantity.of(True)


@given(quantities)
def test_the_canonical_form_means_the_same(quantity: Quantity) -> None:
    again = Quantity.parse(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)


@given(quantities, quantities)
def test_sums_are_exact(left: Quantity, right: Quantity) -> None:
    assert left + right == right + left
    assert (left + right) - right == left
    assert Fraction((left + right).milli_value, 1000) >= Fraction(left.milli_value + right.milli_value - 2, 1000)
