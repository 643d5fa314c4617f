"""The times of a CronJob's schedule."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from kubewright_controlplane.controllers.cronjob.schedule import parse

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
def test_the_time_that_follows(schedule: str, following: str) -> None:
    assert parse(schedule).after(FRIDAY) == at(following)


def test_a_delay_runs_from_the_time_before() -> None:
    every = parse("@every 1h30m")
    assert every.after(FRIDAY) == at("2026-01-02T12:00:15")
    assert every.latest(FRIDAY, at("2026-01-02T14:00")) == at("2026-01-02T13:30:15")
    assert every.latest(FRIDAY, at("2026-01-02T11:00")) is None


def test_a_day_that_never_comes_has_no_time() -> None:
    assert parse("0 0 30 2 *").after(FRIDAY) is None


@pytest.mark.parametrize(
    ("schedule", "latest"),
    [("*/10 * * * *", "2026-01-02T10:30"), ("0 3 * * *", "2026-01-02T03:00"), ("0 0 1 1 *", "2026-01-01T00:00")],
)
def test_of_many_times_that_were_missed_the_latest_counts(schedule: str, latest: str) -> None:
    assert parse(schedule).latest(at("2020-01-01T00:00"), FRIDAY) == at(latest)


def test_nothing_was_missed_since_the_last_time() -> None:
    assert parse("0 3 * * *").latest(at("2026-01-02T03:00"), FRIDAY) is None


def test_times_are_those_of_the_zone() -> None:
    assert parse("0 9 * * *", ZoneInfo("America/New_York")).after(FRIDAY) == at("2026-01-02T14:00")


def test_an_hour_that_the_clock_skips_has_no_times() -> None:
    zone = ZoneInfo("Europe/Berlin")
    found = parse("30 2 * * *", zone).after(datetime(2026, 3, 28, 12, tzinfo=UTC))
    assert found == datetime(2026, 3, 30, 2, 30, tzinfo=zone)


def test_an_hour_that_comes_twice_has_its_times_once() -> None:
    schedule = parse("30 2 * * *", ZoneInfo("Europe/Berlin"))
    first = schedule.after(datetime(2026, 10, 24, 12, tzinfo=UTC))
    assert first == at("2026-10-25T00:30")
    assert schedule.after(first) == at("2026-10-26T01:30")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("* * * *", "has 5 fields, not 4"),
        ("60 * * * *", '"60" is not within 0 to 59'),
        ("* * * * funday", "funday"),
        ("5-1 * * * *", '"5-1" is not within 0 to 59'),
    ],
)
def test_a_schedule_that_cannot_be_read_says_so(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parse(text)
