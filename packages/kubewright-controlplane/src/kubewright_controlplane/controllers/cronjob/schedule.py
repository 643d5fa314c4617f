"""The times of a CronJob's schedule.

Five fields (minute, hour, day of the month, month, day of the week) with lists, ranges, steps and names; `@daily` and
its like; `@every 1h30m`. Where both day fields are restricted, either is enough. Times are those of a time zone: an
hour that is skipped there has no times, one that comes twice has them once.

Follows the standard parser of github.com/robfig/cron and
https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#schedule-syntax.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

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
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LOOK_BACK: Final = (timedelta(hours=1), timedelta(days=1), timedelta(days=32), timedelta(days=366 * 5))
_YEARS: Final = 5
"""How far ahead is looked for a time: `0 0 30 2 *` has none."""


@dataclass(frozen=True, slots=True)
class Every:
    """A fixed delay from one time to the next."""

    delay: timedelta

    def after(self, moment: datetime) -> datetime | None:
        """The first time after `moment`."""
        return moment.replace(microsecond=0) + self.delay

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """The last time after `after` that is not later than `until`."""
        start = after.replace(microsecond=0)
        times = (until - start) // self.delay
        return start + times * self.delay if times > 0 else None


@dataclass(frozen=True, slots=True)
class Schedule:
    """Five sets of numbers, and the zone whose clock they are of."""

    minutes: Sequence[int]
    hours: Sequence[int]
    days: Sequence[int]
    months: Sequence[int]
    weekdays: Sequence[int]
    either_day: bool
    """Both fields for days are restricted."""
    zone: tzinfo = UTC

    def after(self, moment: datetime) -> datetime | None:
        """The first time after `moment`; None when there is none in years."""
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
        """The last time after `after` that is not later than `until`. Looks back further only where it has to."""
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
        """That time of the zone's clock; None where the clock skips it."""
        found = local.replace(tzinfo=self.zone).astimezone(UTC)
        return found if found.astimezone(self.zone).replace(tzinfo=None) == local else None


def parse(text: str, zone: tzinfo = UTC) -> Schedule | Every:
    """The schedule that `text` says. Raises ValueError for one that cannot be read."""
    if text.startswith("@every "):
        return Every(max(parse_duration(text.removeprefix("@every ")), timedelta(seconds=1)))
    fields = _DESCRIPTORS.get(text, text).split()
    if len(fields) != 5:
        raise ValueError(f'"{text}": a schedule has 5 fields, not {len(fields)}')
    minute, hour, day, month, weekday = fields
    return Schedule(
        minutes=_numbers(minute, 0, 59),
        hours=_numbers(hour, 0, 23),
        days=_numbers(day, 1, 31),
        months=_numbers(month, 1, 12, _MONTHS),
        weekdays=_numbers(weekday, 0, 6, _DAYS),
        either_day=not _is_star(day) and not _is_star(weekday),
        zone=zone,
    )


def _is_star(field: str) -> bool:
    return any(part in ("*", "?", "*/1", "?/1") for part in field.split(","))


def _numbers(field: str, low: int, high: int, names: Sequence[str] = ()) -> list[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        if first in ("*", "?"):
            start, end = low, high
        else:
            start = _number(first, low, names)
            end = _number(last, low, names) if dash else (high if step else start)
        if not low <= start <= end <= high:
            raise ValueError(f'"{part}" is not within {low} to {high}')
        found.update(range(start, end + 1, int(step or 1)))
    return sorted(found)


def _number(text: str, low: int, names: Sequence[str]) -> int:
    lower = text.lower()
    return names.index(lower) + low if lower in names else int(text)
