"""Ages and durations as kubectl shows them: at most two units, and less precise with growing age.

Follows k8s.io/apimachinery/pkg/util/duration.
"""

from __future__ import annotations

from datetime import datetime

from kubewright.machinery import time

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 86400 * 365


def age(timestamp: str | None, now: datetime) -> str:
    """Return the age of a time; `<unknown>` without one."""
    if not timestamp:
        return "<unknown>"
    return human_duration(int((now - time.parse(timestamp)).total_seconds()))


def human_duration(seconds: int) -> str:
    """`59s`, `5m30s`, `12m`, `3h10m`, `20h`, `2d3h`, `9d`, `3y10d`, `9y`."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    if seconds < 10 * _MINUTE:
        return _two_units(seconds, _MINUTE, "m", 1, "s")
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two_units(seconds, _HOUR, "h", _MINUTE, "m")
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _two_units(seconds, _DAY, "d", _HOUR, "h")
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _two_units(seconds, _YEAR, "y", _DAY, "d")
    return f"{seconds // _YEAR}y"


def _two_units(seconds: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    whole, rest = divmod(seconds, large)
    part = rest // small
    return f"{whole}{large_unit}{part}{small_unit}" if part else f"{whole}{large_unit}"
