"""IntOrString: a number, or text with a percentage of a total (or the name of a port).

Follows k8s.io/apimachinery/pkg/util/intstr.
"""

from __future__ import annotations

import re

_PERCENT = re.compile(r"([+-]?\d+)%")


def scaled(value: int | str, total: int, *, round_up: bool) -> int:
    """Return `value` if it is a number, or that percentage of `total`, rounded up or down.

    A Deployment rounds `maxSurge` up and `maxUnavailable` down. Raises ValueError for text that is not a percentage.
    """
    if isinstance(value, int):
        return value
    found = _PERCENT.fullmatch(value)
    if found is None:
        raise ValueError(f'invalid value for IntOrString: "{value}" is neither an integer nor a percentage like "25%"')
    product = int(found[1]) * total
    return -(-product // 100) if round_up else product // 100
