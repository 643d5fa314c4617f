"""Versions and ranges of versions as OLM reads them.

A range consists of comparisons: `>=1.0.0 <2.0.0 || >=3.1.0`; a space means and, `||` means or. `x` stands for any
number: `1.2.x`. Follows github.com/blang/semver.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import total_ordering
from typing import Final

_NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_IDENTIFIER: Final = r"[0-9A-Za-z-]+"
_VERSION: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    rf"(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
)
_COMPARISON: Final = re.compile(r"(==|=|>=|>|<=|<|!=|!)?(.*)")
_OPERATORS: Final[dict[str, Callable[[Version, Version], bool]]] = {
    "": lambda one, other: one == other,
    "!": lambda one, other: one != other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
}
_LARGEST: Final = 2**64 - 1


@total_ordering
@dataclass(frozen=True, eq=False, slots=True)
class Version:
    """A semantic version. Build metadata does not take part in comparisons."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()
    build: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Version:
        """Parse `1.2.0-rc.1+build`. Raises ValueError."""
        found = _VERSION.fullmatch(text)
        if found is None or not text.isascii():
            raise ValueError(f'"{text}" is not a semantic version, like "1.2.0"')
        numbers = [int(each) for each in found.groups()[:3]]
        pre = tuple(found[4].split(".")) if found[4] else ()
        if any(_is_number(each) and len(each) > 1 and each[0] == "0" for each in pre):
            raise ValueError(f'"{text}" has a number with a leading zero')
        if max(numbers) > _LARGEST:
            raise ValueError(f'"{text}" has a number that is too large')
        major, minor, patch = numbers
        return cls(major, minor, patch, pre, tuple(found[5].split(".")) if found[5] else ())

    @classmethod
    def parse_tolerant(cls, text: str) -> Version:
        """Parse a version that may begin with `v`, lack its last parts, or have leading zeros. Raises ValueError."""
        parts = text.strip().removeprefix("v").split(".", 2)
        for place, part in enumerate(parts):
            rest = part.lstrip("0") if len(part) > 1 else part
            parts[place] = rest if rest[:1].isdigit() or len(part) <= 1 else f"0{rest}"
        if len(parts) < 3 and re.search(r"[-+]", parts[-1]):
            raise ValueError(f'"{text}" is not a semantic version, like "1.2.0"')
        return cls.parse(".".join([*parts, "0", "0"][: max(3, len(parts))]))

    @property
    def _key(self) -> tuple[object, ...]:
        pre = tuple((0, int(each), "") if _is_number(each) else (1, 0, each) for each in self.pre)
        return self.major, self.minor, self.patch, not self.pre, pre

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._key == other._key

    def __lt__(self, other: Version) -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        pre = f"-{'.'.join(self.pre)}" if self.pre else ""
        build = f"+{'.'.join(self.build)}" if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{pre}{build}"


@dataclass(frozen=True, slots=True)
class Range:
    """Versions that satisfy one of several conjunctions of comparisons."""

    alternatives: tuple[tuple[tuple[str, Version], ...], ...]

    @classmethod
    def parse(cls, text: str) -> Range:
        """Parse a range. Raises ValueError, which names the part that is wrong."""
        # A space after an operator belongs to the comparison.
        words = re.sub(r"([<>=])\s+", r"\1", text).split()
        alternatives: list[list[str]] = [[]]
        for word in words:
            if word == "||":
                alternatives.append([])
            else:
                alternatives[-1].append(word)
        if not all(alternatives):
            raise ValueError(f'"{text}" is not a range of versions, like ">=1.0.0 <2.0.0"')
        return cls(tuple(tuple(each for word in words for each in _comparisons(word)) for words in alternatives))

    def __contains__(self, version: Version) -> bool:
        return any(all(_OPERATORS[sign](version, each) for sign, each in words) for words in self.alternatives)


def _is_number(text: str) -> bool:
    return text.isdigit()


def _comparisons(word: str) -> list[tuple[str, Version]]:
    found = _COMPARISON.fullmatch(word)
    assert found is not None, "the expression matches every text"
    sign, text = (found[1] or "").replace("==", "").replace("!=", "!"), found[2]
    sign = "" if sign == "=" else sign
    if "x" not in text:
        return [(sign, Version.parse(text))]
    parts = text.split(".")
    numbers = parts[: parts.index("x")] if "x" in parts else []
    if len(numbers) not in (1, 2) or any(each != "x" for each in parts[len(numbers) :]) or len(parts) > 3:
        raise ValueError(f'"{word}" is not a comparison with a version, like ">=1.2.x"')
    low = Version.parse(".".join([*numbers, "0", "0"][:3]))
    high = Version(low.major + 1, 0, 0) if len(numbers) == 1 else Version(low.major, low.minor + 1, 0)
    wildcards: dict[str, list[tuple[str, Version]]] = {
        "": [(">=", low), ("<", high)],
        "!": [("<", low), (">=", high)],
        ">": [(">=", high)],
        ">=": [(">=", low)],
        "<": [("<", low)],
        "<=": [("<", high)],
    }
    return wildcards[sign]
