"""Regular expressions from users, with the meaning that Kubernetes gives them: RE2's.

RE2 matches in time linear in the text, so a pattern in a CRD cannot hang the process that applies it. Its syntax is
Go's but for little; Python's own differs in more, and is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from kubewright.machinery.errors import ConfigError

_IN_GO: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "trailing \\": "trailing backslash at end of expression",
}
"""Faults of a pattern that RE2 and Go's regexp/syntax have different words for."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Callable[[str], Any]:
    """A function that is true for text in which `pattern` is found somewhere.

    Raises ValueError with RE2's reason for a pattern that is none, ConfigError where RE2 is not installed.
    """
    try:
        re2: Any = import_module("re2")
    except ImportError:
        raise ConfigError(
            f"the pattern {pattern!r} needs RE2, which is not installed; "
            "install it with: pip install 'kubewright[server]'"
        ) from None
    options = re2.Options()
    options.log_errors = False
    try:
        found: Callable[[str], Any] = re2.compile(pattern, options).search
    except re2.error as error:
        reason = error.args[0] if error.args else b""
        raise ValueError(_as_go_says(reason.decode() if isinstance(reason, bytes) else str(reason))) from None
    return found


def _as_go_says(reason: str) -> str:
    problem, colon, part = reason.partition(": ")
    return f"{_IN_GO.get(problem, problem)}: `{part}`" if colon else _IN_GO.get(problem, problem)
