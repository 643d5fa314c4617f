"""The plural that a kind is served under when none is declared, by the usual rules of English, as kubebuilder does."""

from __future__ import annotations

import re
from typing import Final

_RULES: Final = (
    (r"sis$", "ses"),
    (r"(s|x|z|ch|sh)$", r"\1es"),
    (r"([^aeiou])y$", r"\1ies"),
    (r"$", "s"),
)


def plural_of(singular: str) -> str:
    """`webserver` -> `webservers`, `policy` -> `policies`, `box` -> `boxes`. Irregular nouns are left to the author."""
    for pattern, ending in _RULES:
        plural, found = re.subn(pattern, ending, singular, count=1)
        if found:
            return plural
    raise AssertionError("the last rule fits every noun")
