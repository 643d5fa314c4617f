"""Durations in fields of objects, which may be any 64-bit number of seconds."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

_LONGEST: Final = 1000 * 365 * 86400
"""A thousand years in seconds: a time plus or minus that is still a time."""


def duration(seconds: float) -> timedelta:
    """Return a duration. More than a thousand years, which no clock can show, become a thousand years."""
    return timedelta(seconds=max(-_LONGEST, min(seconds, _LONGEST)))
