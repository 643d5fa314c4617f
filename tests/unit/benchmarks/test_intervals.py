"""The spread of a figure, and the interval of a ratio over paired rounds."""

from __future__ import annotations

import pytest
from benchmarks.intervals import mean_interval, ratio, ratio_interval, spread


def test_the_spread_is_half_the_range_relative_to_the_median() -> None:
    assert spread([9.0, 10.0, 12.0]) == pytest.approx(0.15)
    assert spread([7.0]) == 0.0
    assert spread([0.0, 0.0]) == 0.0


def test_the_interval_of_a_mean_is_students_t() -> None:
    interval = mean_interval([1.0, 2.0, 3.0])
    assert interval is not None
    assert (interval.value, interval.low, interval.high) == pytest.approx((2.0, 2 - 2.484, 2 + 2.484), abs=0.001)


def test_a_single_round_has_no_interval() -> None:
    assert mean_interval([1.0]) is None
    assert ratio_interval([1.0], [2.0]) is None
    assert ratio([1.0], [2.0]) == 0.5


def test_what_slows_down_a_whole_round_cancels_out_in_a_ratio() -> None:
    theirs = [1.0, 3.0, 2.0]
    interval = ratio_interval([each * 0.4 for each in theirs], theirs)
    assert interval is not None
    assert (interval.value, interval.low, interval.high) == pytest.approx((0.4, 0.4, 0.4))


def test_the_interval_of_a_ratio_is_symmetric_in_logarithms() -> None:
    interval = ratio_interval([0.5, 0.45, 0.55, 0.52, 0.48], [1.0] * 5)
    assert interval is not None
    assert interval.low * interval.high == pytest.approx(interval.value**2)
    assert interval.low < 0.46 < interval.value < 0.54 < interval.high


def test_more_rounds_make_an_interval_narrower() -> None:
    three, five = (ratio_interval(([1.0, 1.1, 0.9] * 2)[:count], [2.0] * count) for count in (3, 5))
    assert three is not None
    assert five is not None
    assert five.high - five.low < (three.high - three.low) / 1.5


def test_counts_of_zero_have_a_ratio_of_zero_and_nothing_is_divided_by_zero() -> None:
    zero = ratio_interval([0.0, 0.0], [2.0, 2.0])
    assert zero is not None
    assert (zero.low, zero.high) == (0.0, 0.0)
    assert ratio_interval([0.0, 1.0], [2.0, 2.0]) is None
    assert ratio([1.0, 1.0], [0.0, 2.0]) is None
    assert ratio_interval([1.0, 1.0], [0.0, 2.0]) is None
