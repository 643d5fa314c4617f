"""Cron schedules: their times, and the faults of invalid ones."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from kubewright.machinery.cron import parse

FRIDAY = datetime(2026, 1, 2, 10, 30, 15, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "following"),
    [
        ("* * * * *", "2026-01-02T10:31"),
        ("*/15 * * * *", "2026-01-02T10:45"),
        ("30 10 * * *", "2026-01-03T10:30"),
        ("0 9-17/4 * * mon-fri", "2026-01-02T13:00"),
        ("0 0 1,15 * *", "2026-01-15T00:00"),
        ("0 0 13 * fri", "2026-01-09T00:00"),
        ("0 0 * * sun", "2026-01-04T00:00"),
        ("0 0 */2 * sun", "2026-01-03T00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00"),
        ("5/20 * * jan ?", "2026-01-02T10:45"),
        ("@hourly", "2026-01-02T11:00"),
        ("@weekly", "2026-01-04T00:00"),
        ("@yearly", "2027-01-01T00:00"),
    ],
)
def test_after_returns_the_next_time(schedule: str, following: str) -> None:
    assert parse(schedule).after(FRIDAY) == at(following)


def test_a_fixed_delay_starts_at_the_previous_time() -> None:
    every = parse("@every 1h30m")
    assert every.after(FRIDAY) == at("2026-01-02T12:00:15")
    assert every.latest(FRIDAY, at("2026-01-02T14:00")) == at("2026-01-02T13:30:15")
    assert every.latest(FRIDAY, at("2026-01-02T11:00")) is None


def test_a_date_that_does_not_exist_has_no_time() -> None:
    assert parse("0 0 30 2 *").after(FRIDAY) is None


@pytest.mark.parametrize("schedule", ["* * * * *", "0 0 1 1 *", "@every 1h", "@every 2000000h"])
def test_schedules_end_before_the_year_9999(schedule: str) -> None:
    last = at("9999-12-31T23:59:59")
    assert parse(schedule).after(last) is None
    assert parse(schedule).latest(last, FRIDAY) is None
    assert parse(schedule, ZoneInfo("Pacific/Kiritimati")).after(at("9700-12-31T23:59:59")) is not None


@pytest.mark.parametrize(
    ("schedule", "latest"),
    [("*/10 * * * *", "2026-01-02T10:30"), ("0 3 * * *", "2026-01-02T03:00"), ("0 0 1 1 *", "2026-01-01T00:00")],
)
def test_latest_returns_the_last_of_many_missed_times(schedule: str, latest: str) -> None:
    assert parse(schedule).latest(at("2020-01-01T00:00"), FRIDAY) == at(latest)


def test_latest_excludes_the_time_it_starts_at() -> None:
    assert parse("0 3 * * *").latest(at("2026-01-02T03:00"), FRIDAY) is None


def test_times_follow_the_time_zone() -> None:
    assert parse("0 9 * * *", ZoneInfo("America/New_York")).after(FRIDAY) == at("2026-01-02T14:00")


def test_an_hour_skipped_by_daylight_saving_has_no_times() -> None:
    zone = ZoneInfo("Europe/Berlin")
    found = parse("30 2 * * *", zone).after(datetime(2026, 3, 28, 12, tzinfo=UTC))
    assert found == datetime(2026, 3, 30, 2, 30, tzinfo=zone)


def test_an_hour_repeated_by_daylight_saving_has_its_times_once() -> None:
    schedule = parse("30 2 * * *", ZoneInfo("Europe/Berlin"))
    first = schedule.after(datetime(2026, 10, 24, 12, tzinfo=UTC))
    assert first == at("2026-10-25T00:30")
    assert schedule.after(first) == at("2026-10-26T01:30")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        (
            "* * * * funday",
            'failed to parse int from funday: strconv.Atoi: parsing "funday": invalid syntax',
        ),
        ("@fortnightly", "unrecognized descriptor: @fortnightly"),
    ],
)
def test_an_invalid_schedule_is_rejected_with_the_words_of_kubernetes(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fault)):
        parse(text)
