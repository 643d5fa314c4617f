"""Cron schedules: the parser that the API server validates with, and the times that the CronJob controller needs.

A schedule has five fields (minute, hour, day of the month, month, day of the week) with lists, ranges, steps and
names, or is a descriptor: `@daily`, `@every 1h30m`. If both day fields are restricted, either one is enough. Times
are those of a time zone: an hour that the zone's clock skips has no times, and an hour that occurs twice has them once.

Follows the standard parser of github.com/robfig/cron and
https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#schedule-syntax.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

import msgspec

from kubewright.machinery.time import parse_duration

_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_FIELDS: Final = 5
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LOOK_BACK: Final = (timedelta(hours=1), timedelta(days=1), timedelta(days=32), timedelta(days=366 * 5))
_END: Final = datetime(9991, 1, 1, tzinfo=UTC)
"""No times are searched from here on, because Python's times end in the year 9999."""
_YEARS: Final = 5
"""How many years ahead `Schedule.after` searches. `0 0 30 2 *` never occurs."""


class FixedDelay(msgspec.Struct, frozen=True):
    """A fixed delay from one time to the next: `@every 1h30m`."""

    delay: timedelta

    def after(self, moment: datetime) -> datetime | None:
        """Return the first time after `moment`; None if there is none before the end of the year 9990."""
        start = moment.replace(microsecond=0)
        return start + self.delay if self.delay <= _END - start else None

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """Return the last time after `after` that is not later than `until`; None if there is none."""
        start = after.replace(microsecond=0)
        times = (until - start) // self.delay
        return start + times * self.delay if times > 0 else None


class Schedule(msgspec.Struct, frozen=True):
    """The five fields of a schedule as sets of numbers, and the time zone they refer to."""

    minutes: Sequence[int]
    hours: Sequence[int]
    days: Sequence[int]
    months: Sequence[int]
    weekdays: Sequence[int]
    either_day: bool
    """Both day fields are restricted, so a day that matches one of them is enough."""
    zone: tzinfo = UTC

    def after(self, moment: datetime) -> datetime | None:
        """Return the first time after `moment`; None if there is none within five years, or after the year 9990."""
        if moment >= _END:
            return None
        local = moment.astimezone(self.zone)
        start = (local + timedelta(minutes=1)).replace(second=0, microsecond=0, tzinfo=None)
        for year in range(start.year, start.year + _YEARS + 1):
            for month in self.months:
                if (year, month) >= (start.year, start.month):
                    found = self._in_month(year, month, start, moment)
                    if found is not None:
                        return found
        return None

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """Return the last time after `after` that is not later than `until`; None if there is none."""
        for span in _LOOK_BACK:
            start = max(after, until - span)
            found, moment = None, self.after(start)
            while moment is not None and moment <= until:
                found, moment = moment, self.after(moment)
            if found is not None or start == after:
                return found
        return None

    def _in_month(self, year: int, month: int, start: datetime, moment: datetime) -> datetime | None:
        for day in range(1, monthrange(year, month)[1] + 1):
            date = datetime(year, month, day)
            if date.date() < start.date() or not self._is_day(date):
                continue
            for hour in self.hours:
                for minute in self.minutes:
                    found = self._at(date.replace(hour=hour, minute=minute))
                    if found is not None and found > moment:
                        return found
        return None

    def _is_day(self, date: datetime) -> bool:
        by_month, by_week = date.day in self.days, date.isoweekday() % 7 in self.weekdays
        return by_month or by_week if self.either_day else by_month and by_week

    def _at(self, local: datetime) -> datetime | None:
        """Return a time of the zone's clock in UTC; None if the clock skips it."""
        found = local.replace(tzinfo=self.zone).astimezone(UTC)
        return found if found.astimezone(self.zone).replace(tzinfo=None) == local else None


def parse(text: str, zone: tzinfo = UTC) -> Schedule | FixedDelay:
    """Parse a schedule. Raises ValueError with the text of a real API server."""
    if text.startswith(_EVERY):
        return _parse_delay(text)
    if text.startswith("@") and text not in _DESCRIPTORS:
        raise ValueError(f"unrecognized descriptor: {text}")
    fields = _DESCRIPTORS.get(text, text).split()
    if len(fields) != _FIELDS:
        raise ValueError(f"expected exactly {_FIELDS} fields, found {len(fields)}: [{' '.join(fields)}]")
    minute, hour, day, month, weekday = fields
    return Schedule(
        minutes=_parse_field(minute, 0, 59),
        hours=_parse_field(hour, 0, 23),
        days=_parse_field(day, 1, 31),
        months=_parse_field(month, 1, 12, _MONTHS),
        weekdays=_parse_field(weekday, 0, 6, _DAYS),
        either_day=not _is_unrestricted(day) and not _is_unrestricted(weekday),
        zone=zone,
    )


def _parse_delay(text: str) -> FixedDelay:
    try:
        delay = parse_duration(text.removeprefix(_EVERY))
    except ValueError as error:
        raise ValueError(f"failed to parse duration {text}: {error}") from None
    return FixedDelay(max(delay, timedelta(seconds=1)))


def _is_unrestricted(field: str) -> bool:
    return any(part in ("*", "?", "*/1", "?/1") for part in field.split(","))


def _parse_field(field: str, low: int, high: int, names: Sequence[str] = ()) -> list[int]:
    numbers: set[int] = set()
    for part in field.split(","):
        numbers.update(_parse_range(part, low, high, names))
    return sorted(numbers)


def _parse_range(part: str, low: int, high: int, names: Sequence[str]) -> range:
    span, *steps = part.split("/")
    first, *lasts = span.split("-")
    if len(lasts) > 1:
        raise ValueError(f"too many hyphens: {part}")
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {part}")
    if first in ("*", "?"):
        start, end = low, high
    else:
        start = _parse_number(first, part, low, names)
        end = _parse_number(lasts[0], part, low, names) if lasts else (high if steps else start)
    step = _parse_number(steps[0], part) if steps else 1
    if start < low:
        raise ValueError(f"beginning of range ({start}) below minimum ({low}): {part}")
    if end > high:
        raise ValueError(f"end of range ({end}) above maximum ({high}): {part}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {part}")
    return range(start, end + 1, step)


def _parse_number(text: str, part: str, low: int = 0, names: Sequence[str] = ()) -> int:
    """Parse a number, or one of `names`, the first of which stands for `low`."""
    lower = text.lower()
    if lower in names:
        return names.index(lower) + low
    if not (text.isdecimal() and text.isascii()):
        raise ValueError(f'failed to parse int from {part}: strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)
