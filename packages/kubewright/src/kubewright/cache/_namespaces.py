"""In which namespaces: all of them, one, or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

Namespaces: TypeAlias = str | Sequence[str] | None
"""One namespace, or several; None is all."""

EVERYWHERE: Final[tuple[str | None, ...]] = (None,)


def each_of(namespaces: Namespaces) -> tuple[str | None, ...]:
    """The namespaces one by one, each once; `EVERYWHERE` when none is named."""
    if not namespaces:
        return EVERYWHERE
    return (namespaces,) if isinstance(namespaces, str) else tuple(dict.fromkeys(namespaces))
