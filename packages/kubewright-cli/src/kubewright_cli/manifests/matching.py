"""A text that matches a regular expression.

Takes the first alternative of each choice and the fewest repetitions. Whether the text really matches is for the caller
to check: lookarounds, backreferences and flags are not understood.
"""

from __future__ import annotations

import re
import string
from typing import Final

_CLASSES: Final = {"d": "1", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a", "n": "\n", "t": "\t", "r": "\r"}
_EMPTY: Final = frozenset("bBAzZ")
_POSIX: Final = {"alpha": "a", "alnum": "a", "lower": "a", "upper": "A", "digit": "1", "space": " ", "xdigit": "a"}
_ANY: Final = "a1-_. /:" + string.ascii_letters + string.digits + string.punctuation
_REPEAT: Final = re.compile(r"([*+?]|\{(\d+)(,\d*)?\})([?+]?)")


def example_of(pattern: str, shortest: int = 0) -> str:
    """Return a text that is likely to match the pattern, with `shortest` or more characters if possible."""
    try:
        reader = _Reader(pattern)
        parts = reader.alternatives()
    except IndexError:  # not a pattern
        return ""
    missing = shortest - sum(len(text) * count for text, count, _ in parts)
    for place, (text, count, open_ended) in enumerate(parts):
        if open_ended and text and missing > 0:
            parts[place] = (text, count + -(-missing // len(text)), open_ended)
            break
    return "".join(text * count for text, count, _ in parts)


class _Reader:
    """Reads a pattern once, from left to right. A part is a text, how often it occurs, and whether more may follow."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def alternatives(self) -> list[tuple[str, int, bool]]:
        """Return the parts of the first alternative; reads the others, up to the end of the group."""
        first = self._sequence()
        while self._next() == "|":
            self._at += 1
            self._sequence()
        return first

    def _sequence(self) -> list[tuple[str, int, bool]]:
        parts: list[tuple[str, int, bool]] = []
        while self._next() not in ("", "|", ")"):
            text = self._atom()
            parts.append((text, *self._repetition()))
        return parts

    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        self._at += 1
        return self._pattern[self._at - 1]

    def _atom(self) -> str:
        match self._take():
            case "^" | "$":
                return ""
            case ".":
                return "a"
            case "(":
                return self._group()
            case "[":
                return self._class()
            case "\\":
                escaped = self._take()
                return "" if escaped in _EMPTY else _CLASSES.get(escaped, escaped)
            case other:
                return other

    def _group(self) -> str:
        if self._next() == "?":
            while self._take() not in (":", ">"):
                pass
        text = "".join(text * count for text, count, _ in self.alternatives())
        self._take()  # the closing parenthesis
        return text

    def _class(self) -> str:
        negated = self._next() == "^"
        self._at += negated
        start = self._at
        members: list[str] = []
        while self._next() != "]" or self._at == start:
            members += self._member()
        self._take()
        if not negated:
            return members[0]
        return next((each for each in _ANY if each not in members), "a")

    def _member(self) -> list[str]:
        if self._pattern.startswith("[:", self._at):
            end = self._pattern.index(":]", self._at)
            name, self._at = self._pattern[self._at + 2 : end], end + 2
            return [_POSIX.get(name, "a")]
        first = self._take()
        if first == "\\":
            escaped = self._take()
            return {"d": list(string.digits), "w": list(string.ascii_letters + string.digits + "_")}.get(
                escaped, [_CLASSES.get(escaped, escaped)]
            )
        if self._next() == "-" and self._pattern[self._at + 1] != "]":
            self._at += 1
            return [chr(code) for code in range(ord(first), ord(self._take()) + 1)]
        return [first]

    def _repetition(self) -> tuple[int, bool]:
        found = _REPEAT.match(self._pattern, self._at)
        if found is None:
            return 1, False
        self._at = found.end()
        sign, least, most = found[1], found[2], found[3]
        if least is None:
            return (1 if sign == "+" else 0), sign != "?"
        return int(least), most is not None and int(most[1:] or "1000") > int(least)
