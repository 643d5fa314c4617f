"""Times and durations are read and written as Go does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.machinery import time


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T14:00:00+02:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00.123456789Z", datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)),
    ],
)
def test_a_time_is_read(text: str, moment: datetime) -> None:
    assert time.parse(text) == moment


@pytest.mark.parametrize(
    "text", ["", "2026-01-31", "2026-13-01T00:00:00Z", "2026-01-31T12:00:00", "2026-01-31t12:00:00z"]
)
def test_an_invalid_time_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|month"):
        time.parse(text)


def test_a_time_is_written_to_the_second_and_a_micro_time_to_the_microsecond() -> None:
    moment = time.parse("2026-01-31T14:00:00.5+02:00")
    assert time.format(moment) == "2026-01-31T12:00:00Z"
    assert time.format_micro(moment) == "2026-01-31T12:00:00.500000Z"
    assert time.truncate(moment) == time.parse(time.format(moment))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1h30m", "1h30m0s"), ("1.5s", "1.5s"), ("300ms", "300ms"), ("0", "0s"), ("-1m", "-1m0s"), ("1us", "1µs"),
        ("100h", "100h0m0s"), ("1h0.5s", "1h0m0.5s"), (".5h", "30m0s"), ("90s", "1m30s"),
    ],
)  # fmt: skip
def test_a_duration_is_read_and_written(text: str, written: str) -> None:
    assert time.format_duration(time.parse_duration(text)) == written


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", 'time: invalid duration ""'),
        ("3", 'time: missing unit in duration "3"'),
        ("1x", 'time: unknown unit "x" in duration "1x"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        (".s", 'time: invalid duration ".s"'),
    ],
)
def test_an_invalid_duration_has_gos_error_message(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match="time:") as refused:
        time.parse_duration(text)
    assert str(refused.value) == fault


def test_a_long_invalid_duration_costs_as_much_as_its_length() -> None:
    """Fails by its time limit if the cost is quadratic."""
    for text in ("1" * 200_000, "1." * 100_000, "1h" * 100_000 + "!"):
        with pytest.raises(ValueError, match="time:"):
            time.parse_duration(text)


@given(st.timedeltas(timedelta(days=-9999), timedelta(days=9999)))
def test_any_duration_survives_a_round_trip(duration: timedelta) -> None:
    assert time.parse_duration(time.format_duration(duration)) == duration


@pytest.mark.parametrize("value", [1.5, timedelta(seconds=1, milliseconds=500)])
def test_a_duration_is_a_number_of_seconds_or_a_timedelta(value: time.Seconds) -> None:
    assert time.seconds(value) == 1.5
