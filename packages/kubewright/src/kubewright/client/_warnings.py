"""Warnings that the API server sends with its answers: deprecated versions, unknown fields, risky settings.

Source: https://kubernetes.io/blog/2020/09/03/warnings/ and RFC 7234, section 5.5.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from kubewright._runtime.log import get_logger

WarningHandler: TypeAlias = Callable[[str], None]
"""Is called with the text of each warning."""

_log = get_logger("kubewright.client")

_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(r"\\(.)")


def parse_warnings(header: str) -> list[str]:
    """The texts of a `Warning` header: `299 - "a", 299 - "b"`."""
    return [_ESCAPE.sub(r"\1", text) for text in _WARNING.findall(header)]


class LogOnce:
    """Logs each warning the first time that it comes."""

    _LIMIT = 1000
    """Warnings can carry names of objects: past this many different ones, all are forgotten and may come again."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, text: str) -> None:
        if text in self._seen:
            return
        if len(self._seen) >= self._LIMIT:
            self._seen.clear()
        self._seen.add(text)
        _log.warning("Warning from the API server", warning=text)
