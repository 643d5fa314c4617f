"""Times and durations as the API writes them.

A `Time` is RFC 3339 in UTC to the second (`2026-01-31T12:00:00Z`), a `MicroTime` has six digits of fraction. In
Python both are aware datetimes. A duration has Go's text format (`1h30m0s`, `1.5s`) and is a timedelta in Python,
truncated to microseconds. Every parser raises ValueError, with Go's message if the API server shows it.

Follows k8s.io/apimachinery/pkg/apis/meta/v1 (time.go, micro_time.go, duration.go) and Go's package time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final, TypeAlias, cast

_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_DURATION_PART: Final = re.compile(r"(?=[\d.])(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_NANOSECONDS: Final = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
_LONGEST: Final = 2**63 - 1
"""Nanoseconds of the longest duration in Go."""
_DIGITS: Final = 19

Seconds: TypeAlias = float | timedelta
"""A duration: a number of seconds, or a timedelta. Every parameter for a duration accepts both."""


def seconds(value: Seconds, what: str = "a duration") -> float:
    """Return a duration in seconds. Raises TypeError, which names `what`, if it is neither a number nor a timedelta."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(cast("object", value), (int, float)):
        raise TypeError(f"{what} must be a number of seconds or a timedelta, got {value!r}")
    return value


def parse(text: str) -> datetime:
    """Read a Time or MicroTime: any RFC 3339 date and time, whatever its offset or fraction."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError(f'"{text}" is not a time in the form of RFC 3339, like "2006-01-02T15:04:05Z"')
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = found.groups()
    zone = UTC if sign is None else _offset(sign, int(hours), int(minutes))
    micro = int(fraction[:6].ljust(6, "0")) if fraction else 0
    found_at = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), micro, zone)
    try:
        found_at.astimezone(UTC)
    except OverflowError:
        raise ValueError(f'"{text}" is in no year from 1 to 9999 in UTC') from None
    return found_at


def format(moment: datetime) -> str:
    """Write a Time: UTC, truncated to the second."""
    at = moment.astimezone(UTC)
    return f"{at.year:04d}-{at.month:02d}-{at.day:02d}T{at.hour:02d}:{at.minute:02d}:{at.second:02d}Z"


def format_micro(moment: datetime) -> str:
    """Write a MicroTime: UTC, with six digits of fraction."""
    at = moment.astimezone(UTC)
    return f"{format(at)[:-1]}.{at.microsecond:06d}Z"


def truncate(moment: datetime) -> datetime:
    """Return `moment` as a Time stores it: in UTC, truncated to the second."""
    return moment.astimezone(UTC).replace(microsecond=0)


def parse_duration(text: str) -> timedelta:
    """Read a Go duration: `300ms`, `-1.5h`, `2h45m`, `0`."""
    negative = text.startswith("-")
    body = text[1:] if text[:1] in ("-", "+") else text
    if body == "0":
        return timedelta(0)
    total = 0
    position = 0
    while part := _DURATION_PART.match(body, position):
        total += _nanoseconds(*part.groups(default=""))
        if total > _LONGEST or not (part[1] or part[2]):
            raise ValueError(f'time: invalid duration "{text}"')
        position = part.end()
    if position == 0 or position != len(body):
        raise ValueError(_duration_error(text, body, position))
    micro = total // 1000
    return timedelta(microseconds=-micro if negative else micro)


def _nanoseconds(whole: str, fraction: str, unit: str) -> int:
    """Return one part of a duration, truncated. More digits than a duration can have count as too long."""
    whole, fraction = whole.lstrip("0"), fraction[:_DIGITS]
    if len(whole) > _DIGITS:
        return _LONGEST + 1
    return int(f"0{whole}{fraction}") * _NANOSECONDS[unit] // int(10 ** len(fraction))


def format_duration(duration: timedelta) -> str:
    """Write a Go duration, as Go's `Duration.String` does: `1h30m0s`, `1.5s`, `300ms`, `0s`."""
    total = duration // timedelta(microseconds=1)
    sign, total = ("-", -total) if total < 0 else ("", total)
    if total == 0:
        return "0s"
    if total < 1000:
        return f"{sign}{total}µs"
    if total < 10**6:
        return f"{sign}{_decimal(total, 1000)}ms"
    minutes, rest = divmod(total, 60 * 10**6)
    seconds = f"{_decimal(rest, 10**6)}s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _offset(sign: str, hours: int, minutes: int) -> timezone:
    if hours > 23 or minutes > 59:
        raise ValueError(f'time zone offset "{sign}{hours:02d}:{minutes:02d}" is out of range')
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if sign == "-" else offset)


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    return f"{whole}.{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else str(whole)


def _duration_error(text: str, body: str, position: int) -> str:
    number = re.match(r"[\d.]+", body[position:])
    if number is None or not any(each.isdigit() for each in number[0]):
        return f'time: invalid duration "{text}"'
    unit = re.match(r"[^\d.]*", body[position + number.end() :])
    if unit is None or not unit[0]:
        return f'time: missing unit in duration "{text}"'
    return f'time: unknown unit "{unit[0]}" in duration "{text}"'
