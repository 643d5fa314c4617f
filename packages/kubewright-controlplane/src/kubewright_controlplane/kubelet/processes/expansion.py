"""`$(NAME)` in commands, arguments and values: replaced where the name is known, left as it is where not.

`$$` is a dollar: `$$(NAME)` is the text `$(NAME)`.

Follows k8s.io/kubernetes third_party/forked/golang/expansion.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, values: Mapping[str, str]) -> str:
    """`text` with its references replaced by `values`."""

    def value(found: re.Match[str]) -> str:
        return "$" if found[1] is None else values.get(found[1], found[0])

    return _REFERENCE.sub(value, text)
