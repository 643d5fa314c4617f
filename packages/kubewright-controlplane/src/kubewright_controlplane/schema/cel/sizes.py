"""Sizes and costs in estimates: unsigned integers of 64 bits, of which the largest stands for "unlimited".

Follows cel-go's checker/cost.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

ENDLESS: Final = 2**64 - 1
TRAVERSAL: Final = 0.1
"""The cost of reading one character."""
PATTERN: Final = 0.25
"""The cost of matching one character of a pattern."""


@dataclass(frozen=True, slots=True)
class Size:
    """The smallest and the largest number of characters, items or entries that a value can have."""

    least: int
    most: int

    def __add__(self, other: Size) -> Size:
        return Size(added(self.least, other.least), added(self.most, other.most))

    def __mul__(self, other: Size) -> Size:
        return Size(multiplied(self.least, other.least), multiplied(self.most, other.most))

    def __or__(self, other: Size) -> Size:
        """Return the size of a value that is one of two."""
        return Size(min(self.least, other.least), max(self.most, other.most))

    def cost(self, factor: float = TRAVERSAL) -> int:
        """Return the cost of reading the largest value."""
        return scaled(self.most, factor)


UNKNOWN: Final = Size(0, ENDLESS)


def fixed(size: int) -> Size:
    return Size(size, size)


def added(*numbers: int) -> int:
    return min(sum(numbers), ENDLESS)


def multiplied(left: int, right: int) -> int:
    return min(left * right, ENDLESS)


def scaled(number: int, factor: float) -> int:
    """Return `number` times `factor`, rounded up."""
    product = float(number) * factor
    return ENDLESS if product >= float(2**64) else ceil(product)
