"""IntOrString: a number, or text that is a percentage of a total (or the name of a port).

Follows k8s.io/apimachinery/pkg/util/intstr.
"""

from __future__ import annotations

import re

_PERCENT = re.compile(r"([+-]?\d+)%")


def scaled(value: int | str, total: int, *, round_up: bool) -> int:
    """`value` itself when it is a number, or that percentage of `total`, rounded as told.

    A Deployment rounds `maxSurge` up and `maxUnavailable` down. Raises ValueError for text that is no percentage.
    """
    if isinstance(value, int):
        return value
    found = _PERCENT.fullmatch(value)
    if found is None:
        raise ValueError(f'invalid value for IntOrString: "{value}" is neither an integer nor a percentage like "25%"')
    product = int(found[1]) * total
    return -(-product // 100) if round_up else product // 100
