"""Sprig's functions of dates."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from kubewright.templates._functions import Function, f
from kubewright.templates._sprig.clock import (
    NANOSECONDS,
    Time,
    added,
    between,
    duration_text,
    parse_duration,
    parse_time,
    zero_time,
    zone,
)
from kubewright.templates._sprig.numbers import atoi
from kubewright.templates._values import FunctionError, Int64

_UNITS: Final = (
    ("y", 365 * 24 * 3600), ("mo", 30 * 24 * 3600), ("d", 24 * 3600), ("h", 3600), ("m", 60), ("s", 1),
)  # fmt: skip


def _now() -> Time:
    return Time(*divmod(time.time_ns(), NANOSECONDS), None)


def _time(value: Any) -> Time:
    """Return the time that a value stands for: seconds since 1970, or now."""
    if isinstance(value, Time):
        return value
    return Time(int(value), 0, None) if type(value) in (int, Int64) else _now()


def _in_zone(layout: str, value: Any, name: str) -> str:
    found = _time(value)
    try:
        place = zone(name)
    except FunctionError:
        place = zone("UTC")
    return Time(found.seconds, found.nanoseconds, place).format(layout)


def _date(layout: str, value: Any) -> str:
    return _in_zone(layout, value, "Local")


def _modified(duration: str, value: Time) -> Time:
    return added(value, parse_duration(duration))


def _modified_or_same(duration: str, value: Time) -> Time:
    try:
        return _modified(duration, value)
    except FunctionError:
        return value


def _ago(value: Any) -> str:
    seconds = between(_now(), _time(value)) / NANOSECONDS
    return duration_text(round(seconds) * NANOSECONDS)


def _duration(value: Any) -> str:
    seconds = atoi(value) if isinstance(value, str) else int(value) if isinstance(value, Int64) else 0
    return duration_text((seconds * NANOSECONDS + 2**63) % 2**64 - 2**63)


def _duration_rounded(value: Any) -> str:
    nanoseconds = 0
    if isinstance(value, str):
        try:
            nanoseconds = parse_duration(value)
        except FunctionError:
            nanoseconds = 0
    elif isinstance(value, Int64):
        nanoseconds = int(value)
    elif isinstance(value, Time):
        nanoseconds = between(_now(), value)
    for unit, seconds in _UNITS:
        if abs(nanoseconds) > seconds * NANOSECONDS:
            return f"{abs(nanoseconds) // (seconds * NANOSECONDS)}{unit}"
    return "0s"


def _to_date(layout: str, text: str) -> Time:
    try:
        return parse_time(layout, text)
    except FunctionError:
        return zero_time()


_IN_ZONE: Final = f(_in_zone, "string", "any", "string")
_MODIFY: Final = f(_modified_or_same, "string", "time")
_MUST_MODIFY: Final = f(_modified, "string", "time")
FUNCTIONS: Final[Mapping[str, Function]] = {
    "ago": f(_ago, "any"),
    "date": f(_date, "string", "any"),
    "date_in_zone": _IN_ZONE,
    "dateInZone": _IN_ZONE,
    "date_modify": _MODIFY,
    "dateModify": _MODIFY,
    "must_date_modify": _MUST_MODIFY,
    "mustDateModify": _MUST_MODIFY,
    "duration": f(_duration, "any"),
    "durationRound": f(_duration_rounded, "any"),
    "htmlDate": f(lambda value: _date("2006-01-02", value), "any"),
    "htmlDateInZone": f(lambda value, name: _in_zone("2006-01-02", value, name), "any", "string"),
    "toDate": f(_to_date, "string", "string"),
    "mustToDate": f(parse_time, "string", "string"),
    "now": f(_now),
    "unixEpoch": f(lambda value: str(value.seconds), "time"),
}
