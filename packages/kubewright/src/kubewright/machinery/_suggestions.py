"""Parts of error messages: suggestions for unknown names, and wrong arguments."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most similar to `name`, "" if none is. Case and underscores count least."""
    from difflib import get_close_matches  # loaded only if a message needs it

    names = list(known)
    spelled = {each.replace("_", "").lower(): each for each in names}
    return spelled.get(name.replace("_", "").lower()) or next(iter(get_close_matches(name, names, n=1)), "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for an unknown name: the most similar known name, or all known names."""
    names = list(known)
    similar = nearest(name, names)
    return f"; did you mean {similar!r}?" if similar else f"; known are {', '.join(names)}" if names else ""


def shown(value: object) -> str:
    """Return a wrong argument as messages show it: `'Secret'`, `the class Secret`, `the function f`, `a Secret`."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, FunctionType):
        return f"the function {value.__name__}"
    return repr(value) if isinstance(value, (str, bool, int, float)) else f"a {type(value).__name__}"
