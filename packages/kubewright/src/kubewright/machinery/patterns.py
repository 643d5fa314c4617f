"""Regular expressions of schemas and of CEL.

Patterns have the syntax and meaning of RE2, as in Kubernetes. Its syntax is nearly that of Go; Python's own differs
more and is not used.

RE2 matches in time linear in the text, but the factor is the size of the compiled pattern: 15 characters of a pattern
and 30 KB of text can take 150 ms, and the call cannot be interrupted. So each call first reports its
effort (`kubewright.machinery.effort`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from kubewright.machinery.effort import report
from kubewright.machinery.errors import ConfigError

_MOST_MEMORY: Final = 1 << 20
"""Bytes of a compiled pattern and what it remembers. It takes up to 20 ms to make."""
_PATTERNS: Final = 256
"""Compiled patterns that are kept."""
_TO_COMPILE: Final = 64
"""Units for an instruction of a compiled pattern."""
_TO_PARSE: Final = 8
"""Units for a character of a pattern."""
_TO_REFUSE: Final = 1 << 20
_IN_GO: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "pattern too large - compile failed": "expression too large",
    "trailing \\": "trailing backslash at end of expression",
}
"""Messages of RE2 that Go's regexp/syntax words differently."""


class Pattern:
    """A compiled pattern. Get it from `compile_pattern` for each use: few are kept, because each may need 1 MiB."""

    __slots__ = ("_search", "_size")

    def __init__(self, search: Callable[..., Any], size: int) -> None:
        self._search = search
        self._size = size

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches somewhere in the text."""
        data = text.encode()
        report(self._size * len(data))
        return self._search(data) is not None

    def find(self, text: str) -> str:
        """Return the first match; empty if there is none."""
        data = text.encode()
        report(self._size * len(data))
        found = self._search(data)
        return found.group().decode() if found is not None else ""

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """Return the matches from left to right, at most `limit` if that is not negative."""
        data, found, at = text.encode(), list[str](), 0
        report(self._size * len(data))
        while at <= len(data) and limit != len(found):
            report((len(data) - at) // 4)
            match = self._search(data, at)
            if match is None:
                break
            found.append(match.group().decode())
            at = match.end() if match.end() > match.start() else _next_character(data, match.end())
        return found


def _next_character(data: bytes, at: int) -> int:
    """Return the position of the character of UTF-8 that follows the one at `at`."""
    at += 1
    while at < len(data) and data[at] & 0xC0 == 0x80:
        at += 1
    return at


@lru_cache(maxsize=_PATTERNS)
def compile_pattern(pattern: str) -> Pattern:
    """Compile a pattern, or return it if it has been compiled a short time ago.

    Raises ValueError with RE2's reason for an invalid pattern, ConfigError if RE2 is not installed.
    """
    try:
        re2: Any = import_module("re2")
    except ImportError:
        raise ConfigError(
            f"the pattern {pattern!r} needs RE2, which is not installed; install it with: pip install google-re2"
        ) from None
    report(_TO_PARSE * len(pattern))
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    options.never_capture = True
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else b""
        report(_TO_REFUSE)
        raise ValueError(_in_go_wording(reason.decode() if isinstance(reason, bytes) else str(reason))) from None
    size: int = compiled.programsize
    report(_TO_COMPILE * size)
    return Pattern(compiled.search, size)


def _in_go_wording(reason: str) -> str:
    problem, colon, part = reason.partition(": ")
    return f"{_IN_GO.get(problem, problem)}: `{part}`" if colon else _IN_GO.get(problem, problem)
