"""The spread of a figure over its rounds, and the interval in which a figure or a ratio lies.

A figure has one value for each round. All toolkits run in each round, one shortly after the other, so a round pairs
them: what slows the whole machine for a while cancels out in their ratio.

A ratio is the geometric mean of the ratios of the rounds. Its interval is Student's t over their logarithms, at 95 %.
A bootstrap would be too narrow here: three rounds have ten different resamples. A rank test could never decide: three
rounds reach p = 0.25 at best. Student's t is exact for any number of rounds if the logarithms are normally distributed,
which is a good model of CPU times. It is wide for three rounds (4.3 standard errors) and useful for five (2.8).

The interval of an absolute figure is Student's t over its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, geometric_mean, median, stdev
from typing import Final

_STUDENT: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Two-sided 95 % quantiles of Student's t, from one degree of freedom on. The last is used for all above."""


@dataclass(frozen=True)
class Interval:
    """A value, and the limits between which it lies with a confidence of 95 %."""

    value: float
    low: float
    high: float


def spread(values: Sequence[float]) -> float:
    """Return half the distance between the smallest and the largest value, as a fraction of the median."""
    middle = median(values)
    return (max(values) - min(values)) / 2 / abs(middle) if middle else 0.0


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Return the mean and its interval. Returns None for a single value, which has no interval."""
    if len(values) < 2:
        return None
    mean, half = fmean(values), _half_width(values)
    return Interval(mean, mean - half, mean + half)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """Return the geometric mean of the ratios of the rounds. Returns None if there is no ratio to zero."""
    if not all(theirs):
        return None
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    return geometric_mean(ratios) if min(ratios) > 0 else fmean(ratios)


def ratio_interval(ours: Sequence[float], theirs: Sequence[float]) -> Interval | None:
    """Return the ratio and its interval.

    Returns None for a single round, for a ratio to zero, and if only some values are zero.
    """
    value = ratio(ours, theirs)
    if value is None or len(ours) < 2:
        return None
    if not any(ours):
        return Interval(0.0, 0.0, 0.0)
    if min(*ours, *theirs) <= 0:
        return None
    half = _half_width([log(one / other) for one, other in zip(ours, theirs, strict=True)])
    return Interval(value, value * exp(-half), value * exp(half))


def _half_width(values: Sequence[float]) -> float:
    quantile = _STUDENT[min(len(values) - 1, len(_STUDENT)) - 1]
    return quantile * stdev(values) / sqrt(len(values))
