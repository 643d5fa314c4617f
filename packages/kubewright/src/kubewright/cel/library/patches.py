"""Functions for expressions that describe a change of an object.

Follows k8s.io/apiserver/pkg/cel/library/jsonpatch.go.
"""

from __future__ import annotations

from typing import Final

from kubewright.cel.functions import library

_ESCAPES: Final = str.maketrans({"~": "~0", "/": "~1"})

FUNCTIONS: Final = library(
    ("jsonpatch.escapeKey(string) -> string", lambda key: key.translate(_ESCAPES)),
)  # fmt: skip
