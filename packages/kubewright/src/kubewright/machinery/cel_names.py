"""Names in CEL expressions. Names of fields that are not identifiers, or are reserved words, are escaped.

Follows k8s.io/apiserver/pkg/cel/escaping.go.
"""

from __future__ import annotations

import re
from typing import Final

RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
"""Identifiers that CEL reserves."""

_RESERVED: Final = RESERVED | {"true", "false", "null", "in"}
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII).fullmatch
_MEANINGS: Final = {name: text for text, name in _ESCAPES.items()} | {f"__{word}__": word for word in _RESERVED}


def is_identifier(name: str) -> bool:
    """Return whether a variable can have that name."""
    return name not in _RESERVED and _IDENTIFIER(name) is not None


def is_reserved(name: str) -> bool:
    """Return whether CEL reserves `name`. A field of that name can still be selected by it."""
    return name in _RESERVED


def escape(name: str) -> str | None:
    """Return a field's name as an identifier; None if it cannot be written as one."""
    if name in _RESERVED:
        return f"__{name}__"
    if not re.fullmatch(r"[A-Za-z_./-][\w./-]*", name, re.ASCII):
        return None
    return re.sub(r"__|[./-]", lambda found: _ESCAPES[found[0]], name)


def unescape(identifier: str) -> str:
    """Return the name of the field that an identifier means."""
    if "__" not in identifier:
        return identifier
    return re.sub(r"__[^_]+__", lambda found: _MEANINGS.get(found[0], found[0]), identifier)
