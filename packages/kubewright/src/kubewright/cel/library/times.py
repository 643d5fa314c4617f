"""Fields of timestamps and durations. Months, days of the year and days of the week count from 0."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from kubewright.cel.functions import Function, library
from kubewright.cel.values import EvaluationError

_PARTS: Final[dict[str, Callable[[datetime], int]]] = {
    "getFullYear": lambda at: at.year,
    "getMonth": lambda at: at.month - 1,
    "getDayOfYear": lambda at: at.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda at: at.day - 1,
    "getDate": lambda at: at.day,
    "getDayOfWeek": lambda at: at.isoweekday() % 7,
    "getHours": lambda at: at.hour,
    "getMinutes": lambda at: at.minute,
    "getSeconds": lambda at: at.second,
    "getMilliseconds": lambda at: at.microsecond // 1000,
}
_SPANS: Final[dict[str, Callable[[timedelta], int]]] = {
    "getHours": lambda span: int(span / timedelta(hours=1)),
    "getMinutes": lambda span: int(span / timedelta(minutes=1)),
    "getSeconds": lambda span: int(span / timedelta(seconds=1)),
    "getMilliseconds": lambda span: int(span / timedelta(milliseconds=1)) % 1000,
}


def _zone(name: str) -> tzinfo:
    offset = re.fullmatch(r"([+-]?)(\d\d):(\d\d)", name, re.ASCII)
    if offset is not None:
        span = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(-span if offset[1] == "-" else span)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise EvaluationError(f"unknown time zone {name}") from None


def _part(take: Callable[[datetime], int]) -> Callable[[datetime], int]:
    return lambda at: take(at.astimezone(UTC))


def _part_in_zone(take: Callable[[datetime], int]) -> Callable[[datetime, str], int]:
    return lambda at, zone: take(at.astimezone(_zone(zone)))


FUNCTIONS: Final[tuple[Function, ...]] = (
    *library(*((f"timestamp.{name}() -> int", _part(take)) for name, take in _PARTS.items())),
    *library(*((f"timestamp.{name}(string) -> int", _part_in_zone(take)) for name, take in _PARTS.items())),
    *library(*((f"duration.{name}() -> int", take) for name, take in _SPANS.items())),
)
