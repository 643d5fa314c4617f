"""Times and durations as Go's time package reads and writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Any, ClassVar, Final
from zoneinfo import ZoneInfo

from kubewright.templates._functions import f
from kubewright.templates._values import FunctionError, Int64, NamedInt, Object, spend_on

NANOSECONDS: Final = 1_000_000_000
_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_UTC: Final = UTC
_EPOCH: Final = datetime(1970, 1, 1)
_YEAR_ONE: Final = -62_135_596_800
_UNITS: Final = {
    "ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 10**6, "s": NANOSECONDS, "m": 60 * NANOSECONDS,
    "h": 3600 * NANOSECONDS,
}  # fmt: skip
_DURATION_PART: Final = re.compile(r"([0-9]*)(\.[0-9]*)?([^.0-9]+)")
_CHUNK: Final = re.compile(
    r"January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST|0[1-6]|002|15|1|2006|2|_2006|_2|__2|3|4|5|PM|pm"
    r"|-070000|-07:00:00|-0700|-07:00|-07|Z070000|Z07:00:00|Z0700|Z07:00|Z07|[.,](?:0+|9+)(?![0-9])"
)


# ---- durations


def parse_duration(text: str) -> int:
    """Return the nanoseconds of a duration such as `1h30m`. Raises FunctionError."""
    body = text[1:] if text[:1] in ("-", "+") else text
    if body == "0":
        return 0
    spend_on(text)
    total, position = 0, 0
    while position < len(body) or not body:
        match = _DURATION_PART.match(body, position)
        if match is None or match[3] not in _UNITS or not (match[1] or (match[2] or ".")[1:]):
            raise FunctionError(f"{text!r} is not a duration, such as 1h30m")
        unit = _UNITS[match[3]]
        total += int(match[1] or 0) * unit
        if fraction := (match[2] or "")[1:19]:
            total += int(float(int(fraction)) * (unit / 10.0 ** len(fraction)))
        position = match.end()
        if total > 2**63:
            raise FunctionError(f"duration {text!r} is too long")
    if total > 2**63 - (not text.startswith("-")):
        raise FunctionError(f"duration {text!r} is too long")
    return -total if text.startswith("-") else total


def duration_text(nanoseconds: int) -> str:
    """Return a duration as text."""
    sign, rest = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    if rest < NANOSECONDS:
        for unit, size in (("ns", 1), ("µs", 1000), ("ms", 10**6)):
            if rest < size * 1000:
                return f"{sign}{_fraction(rest, size)}{unit}" if rest else "0s"
    seconds = _fraction(rest % (60 * NANOSECONDS), NANOSECONDS)
    minutes = rest // (60 * NANOSECONDS)
    if not minutes:
        return f"{sign}{seconds}s"
    if minutes < 60:
        return f"{sign}{minutes}m{seconds}s"
    return f"{sign}{minutes // 60}h{minutes % 60}m{seconds}s"


def _fraction(value: int, size: int) -> str:
    rest = f"{value % size:0{len(str(size)) - 1}d}".rstrip("0") if size > 1 else ""
    return f"{value // size}.{rest}" if rest else str(value // size)


class Duration(NamedInt):
    """A time.Duration."""

    type_name = "time.Duration"

    def text(self) -> str:
        return duration_text(self)


class Month(NamedInt):
    """A time.Month."""

    type_name = "time.Month"

    def text(self) -> str:
        return _MONTHS[self - 1]


class Weekday(NamedInt):
    """A time.Weekday."""

    type_name = "time.Weekday"

    def text(self) -> str:
        return _DAYS[self]


# ---- times


@cache
def zone(name: str) -> tzinfo | None:
    """Return a zone by name. Raises FunctionError."""
    if name in ("", "UTC"):
        return _UTC
    if name == "Local":
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise FunctionError(f"time zone {name!r} is not known") from None


def _days_before(year: int, month: int, day: int) -> int:
    """Return the days from 1970-01-01 to a date of any year."""
    cycle = (year - 2000) // 400
    return cycle * 146_097 + (datetime(year - cycle * 400, month, 1) - _EPOCH).days + day - 1


def _date(days: int) -> tuple[int, int, int, int]:
    """Return the year, month, day and day of the year of days from 1970-01-01."""
    cycle = (days - 10_957) // 146_097
    date = _EPOCH + timedelta(days=days - cycle * 146_097)
    return date.year + cycle * 400, date.month, date.day, date.timetuple().tm_yday


class Time(Object):
    """A time.Time: seconds since 1970, nanoseconds, and a zone."""

    type_name = "time.Time"
    methods: ClassVar[Mapping[str, Any]]

    def __init__(self, seconds: int, nanoseconds: int, place: tzinfo | None) -> None:
        self.seconds = seconds
        self.nanoseconds = nanoseconds
        self.zone = place

    def key(self) -> object:
        return self.seconds, self.nanoseconds, id(self.zone)

    def offset(self) -> tuple[int, str]:
        """Return the offset from UTC in seconds, and the name of the zone."""
        if self.zone is _UTC:
            return 0, "UTC"
        if isinstance(self.zone, timezone):
            return round(self.zone.utcoffset(None).total_seconds()), self._fixed_name(self.zone)
        moment = min(max(self.seconds, _YEAR_ONE + 10**6), 253_000_000_000)
        at = datetime.fromtimestamp(moment, _UTC).astimezone(self.zone)
        return round((at.utcoffset() or timedelta(0)).total_seconds()), at.tzname() or ""

    @staticmethod
    def _fixed_name(place: timezone) -> str:
        name = place.tzname(None)
        return "" if name.startswith("UTC") else name

    def json(self) -> str:
        """Return the value for JSON."""
        return self.format("2006-01-02T15:04:05.999999999Z07:00")

    def text(self) -> str:
        return self.format("2006-01-02 15:04:05.999999999 -0700 MST")

    def format(self, layout: str) -> str:
        """Return the time in a layout of Go."""
        spend_on(layout)
        offset, name = self.offset()
        days, clock = divmod(self.seconds + offset, 86_400)
        year, month, day, yday = _date(days)
        hour, minute, second = clock // 3600, clock // 60 % 60, clock % 60
        fields = {
            "January": _MONTHS[month - 1], "Jan": _MONTHS[month - 1][:3], "Monday": _DAYS[(days + 4) % 7],
            "Mon": _DAYS[(days + 4) % 7][:3], "MST": name or _offset_text("-0700", offset),
            "01": f"{month:02}", "02": f"{day:02}", "03": f"{hour % 12 or 12:02}", "04": f"{minute:02}",
            "05": f"{second:02}", "06": f"{abs(year) % 100:02}", "002": f"{yday:03}", "15": f"{hour:02}",
            "1": str(month), "2006": _year_text(year), "2": str(day), "_2006": f"_{_year_text(year)}",
            "_2": f"{day:2}", "__2": f"{yday:3}", "3": str(hour % 12 or 12), "4": str(minute), "5": str(second),
            "PM": "PM" if hour >= 12 else "AM", "pm": "pm" if hour >= 12 else "am",
        }  # fmt: skip

        def chunk(match: re.Match[str]) -> str:
            piece = match.group()
            if piece in fields:
                return fields[piece]
            if piece[0] in ".,":
                return _nanoseconds_text(piece, self.nanoseconds)
            return _offset_text(piece, offset)

        return _CHUNK.sub(chunk, layout)


def _year_text(year: int) -> str:
    return f"{'-' if year < 0 else ''}{abs(year):04}"


def _nanoseconds_text(piece: str, nanoseconds: int) -> str:
    digits = f"{nanoseconds:09}"[: len(piece) - 1].ljust(min(len(piece) - 1, 9), "0")
    if piece[1] == "9":
        digits = digits.rstrip("0")
        return f"{piece[0]}{digits}" if digits else ""
    return f"{piece[0]}{digits}"


def _offset_text(piece: str, offset: int) -> str:
    if piece[0] == "Z" and not offset:
        return "Z"
    rest = abs(offset)
    minutes = rest // 60
    parts = [f"{minutes // 60:02}"]
    if len(piece) > 3:
        parts.append(f"{minutes % 60:02}")
    if len(piece) > 6:
        parts.append(f"{rest % 60:02}")
    sign = "-" if offset < 0 and minutes else "+"
    return sign + (":" if ":" in piece else "").join(parts)


class _Parser:
    """Reader of one time in a layout."""

    def __init__(self, layout: str, text: str) -> None:
        self._layout = layout
        self._text = text
        self._rest = text
        self.fields: dict[str, int] = {}
        self.half = ""
        self.is_utc = False
        self.offset: int | None = None
        self.zone_name = ""

    def fail(self, what: str = "") -> FunctionError:
        note = f": {what} is out of range" if what else ""
        return FunctionError(f"{self._text!r} is not a time in the layout {self._layout!r}{note}")

    def read(self) -> None:
        position = 0
        while match := _CHUNK.search(self._layout, position):
            piece, start = match.group(), match.start()
            if piece == "_2006":
                piece, start = "2006", start + 1
            self._skip(self._layout[position:start])
            position = match.end()
            self._chunk(piece, position)
        self._skip(self._layout[position:])
        if self._rest:
            raise self.fail()

    def _skip(self, literal: str) -> None:
        while literal:
            if literal.startswith(" "):
                if self._rest and not self._rest.startswith(" "):
                    raise self.fail()
                literal, self._rest = literal.lstrip(" "), self._rest.lstrip(" ")
            elif self._rest[:1] != literal[0]:
                raise self.fail()
            else:
                literal, self._rest = literal[1:], self._rest[1:]

    def _take(self, pattern: str) -> str:
        match = re.match(pattern, self._rest, re.ASCII)
        if match is None:
            raise self.fail()
        self._rest = self._rest[match.end() :]
        return match.group()

    def _number(self, field: str, fixed: bool, low: int, high: int) -> None:
        value = int(self._take(r"\d\d" if fixed else r"\d\d?"))
        if not low <= value <= high:
            raise self.fail(field)
        self.fields[field] = value

    def _chunk(self, piece: str, position: int) -> None:
        fixed = piece.startswith("0")
        match piece:
            case "06":
                year = int(self._take(r"[+-]?\d" if self._rest[:1] in ("+", "-") else r"\d\d"))
                self.fields["year"] = year + (1900 if year >= 69 else 2000)
            case "2006":
                self.fields["year"] = int(self._take(r"\d{4}"))
            case "Jan" | "January":
                self.fields["month"] = self._name(_MONTHS, piece == "Jan") + 1
            case "1" | "01":
                self._number("month", fixed, 1, 12)
            case "Mon" | "Monday":
                self._name(_DAYS, piece == "Mon")
            case "2" | "02" | "_2":
                if piece == "_2" and self._rest.startswith(" "):
                    self._rest = self._rest[1:]
                self._number("day", fixed, 0, 99)
            case "__2" | "002":
                self._day_of_year(piece)
            case "15":
                self._number("hour", False, 0, 23)
            case "3" | "03":
                self._number("hour", fixed, 0, 12)
            case "4" | "04":
                self._number("minute", fixed, 0, 59)
            case "5" | "05":
                self._seconds(fixed, position)
            case "PM" | "pm":
                self.half = self._take("PM|AM" if piece == "PM" else "pm|am").upper()
            case "MST":
                self._zone()
            case _:
                self._offset_or_fraction(piece)

    def _name(self, names: tuple[str, ...], is_short: bool) -> int:
        for index, name in enumerate(names):
            wanted = name[:3] if is_short else name
            if self._rest[: len(wanted)].lower() == wanted.lower():
                self._rest = self._rest[len(wanted) :]
                return index
        raise self.fail()

    def _day_of_year(self, piece: str) -> None:
        if piece == "__2":
            for _ in range(2):
                self._rest = self._rest.removeprefix(" ")
        self.fields["yday"] = int(self._take(r"\d{3}" if piece == "002" else r"\d{1,3}"))

    def _seconds(self, fixed: bool, position: int) -> None:
        self._number("second", fixed, 0, 59)
        following = _CHUNK.search(self._layout, position)
        has_fraction = following is not None and following.group()[0] in ".,"
        if not has_fraction and re.match(r"[.,]\d", self._rest, re.ASCII):
            self._nanoseconds(self._take(r"[.,]\d+"))

    def _nanoseconds(self, text: str) -> None:
        self.fields["nanosecond"] = int(text[1:10].ljust(9, "0"))

    def _offset_or_fraction(self, piece: str) -> None:
        if piece[0] in ".,":
            if piece[1] == "0":
                self._nanoseconds(self._take(rf"[.,]\d{{{len(piece) - 1}}}"))
            elif re.match(r"[.,]\d", self._rest, re.ASCII):
                self._nanoseconds(self._take(r"[.,]\d+"))
            return
        if piece[0] == "Z" and self._rest.startswith("Z"):
            self._rest = self._rest[1:]
            self.is_utc = True
            return
        count, colon = {3: 1, 5: 2, 6: 2, 7: 3, 9: 3}[len(piece)], ":" if ":" in piece else ""
        text = self._take(r"[+-]" + colon.join([r"\d\d"] * count))
        numbers = [int(each) for each in re.findall(r"\d\d", text)] + [0, 0]
        if numbers[0] > 24 or numbers[1] > 60 or numbers[2] > 60:
            raise self.fail("the offset")
        offset = numbers[0] * 3600 + numbers[1] * 60 + numbers[2]
        self.offset = -offset if text[0] == "-" else offset

    def _zone(self) -> None:
        if self._rest.startswith("UTC"):
            self._rest = self._rest[3:]
            self.is_utc = True
            return
        name = self._take(
            r"ChST|MeST|GMT(?:[+-]\d+)?|[+-]\d+|[A-Z]{4}T(?![A-Z])|[A-Z]{3}T(?![A-Z])|WITA(?![A-Z])|[A-Z]{3}(?![A-Z])"
        )
        digits = name.lstrip("GMT+-")
        if digits.isdigit() and int(digits) > 23:
            if not name.startswith("GMT"):
                raise self.fail("the offset")
            name, self._rest = "GMT", name[3:] + self._rest
        self.zone_name = name


def parse_time(layout: str, text: str) -> Time:
    """Read a time in a layout of Go; without a zone it is a local one. Raises FunctionError."""
    spend_on(layout)
    spend_on(text)
    parser = _Parser(layout, text)
    parser.read()
    seconds, nanoseconds = _seconds(parser), parser.fields.get("nanosecond", 0)
    if parser.is_utc:
        return Time(seconds, nanoseconds, _UTC)
    if parser.offset is not None:
        return _with_offset(Time(seconds - parser.offset, nanoseconds, None), parser.offset, parser.zone_name)
    if parser.zone_name:
        return _with_name(Time(seconds, nanoseconds, None), parser.zone_name)
    local = Time(seconds, nanoseconds, None)
    local.seconds -= local.offset()[0]
    local.seconds = seconds - local.offset()[0]
    return local


def _with_offset(time: Time, offset: int, name: str) -> Time:
    local_offset, local_name = time.offset()
    if local_offset != offset or (name and name != local_name):
        time.zone = _fixed(offset, name)
    return time


def _with_name(time: Time, name: str) -> Time:
    """Return a time in a zone that has only an abbreviation. It is known if it is that of the local zone."""
    offset, local_name = time.offset()
    if name == local_name:
        time.seconds -= offset
        return time
    hours = int(name[3:]) if name.startswith("GMT") and len(name) > 3 else 0
    time.zone = _fixed(hours * 3600, name)
    return time


def _fixed(offset: int, name: str) -> tzinfo:
    shift = timedelta(seconds=offset)
    if abs(offset) >= 86_400:
        raise FunctionError("the offset of the zone is out of range")
    return timezone(shift, name) if name else timezone(shift, "UTC?")


def _seconds(parser: _Parser) -> int:
    fields = parser.fields
    year, hour = fields.get("year", 0), fields.get("hour", 0)
    if parser.half == "PM" and hour < 12:
        hour += 12
    elif parser.half == "AM" and hour == 12:
        hour = 0
    month, day = _month_and_day(parser, year)
    days = _days_before(year, month, day)
    return days * 86_400 + hour * 3600 + fields.get("minute", 0) * 60 + fields.get("second", 0)


def _month_and_day(parser: _Parser, year: int) -> tuple[int, int]:
    fields = parser.fields
    if "yday" in fields:
        first = _days_before(year, 1, 1)
        found, month, day, _ = _date(first + fields["yday"] - 1)
        if found != year or fields.get("month", month) != month or fields.get("day", day) != day:
            raise parser.fail("the day of the year")
        return month, day
    month, day = fields.get("month", 1), fields.get("day", 1)
    length = _days_before(year + month // 12, month % 12 + 1, 1) - _days_before(year, month, 1)
    if not 1 <= day <= length:
        raise parser.fail("the day")
    return month, day


def zero_time() -> Time:
    """Return the zero time, which failed conversions return."""
    return Time(_YEAR_ONE, 0, _UTC)


def _part(time: Time, layout: str) -> int:
    return int(time.format(layout))


def _add_date(time: Time, years: int, months: int, days: int) -> Time:
    offset, _ = time.offset()
    day_number, clock = divmod(time.seconds + offset, 86_400)
    year, month, day, _ = _date(day_number)
    total = (year + years) * 12 + month - 1 + months
    moved = _days_before(total // 12, total % 12 + 1, 1) + day - 1 + days
    out = Time(moved * 86_400 + clock - offset, time.nanoseconds, time.zone)
    out.seconds += offset - out.offset()[0]
    return out


def added(time: Time, nanoseconds: int) -> Time:
    """Return a time later by a duration."""
    seconds, rest = divmod(time.nanoseconds + nanoseconds, NANOSECONDS)
    return Time(time.seconds + seconds, rest, time.zone)


def between(later: Time, earlier: Time) -> int:
    """Return the nanoseconds between two times, within the limits of a duration."""
    difference = (later.seconds - earlier.seconds) * NANOSECONDS + later.nanoseconds - earlier.nanoseconds
    return min(max(difference, -(2**63)), 2**63 - 1)


def _instant(time: Time) -> tuple[int, int]:
    return time.seconds, time.nanoseconds


Time.methods = {
    "Year": f(lambda time: _part(time, "2006")),
    "Month": f(lambda time: Month(_part(time, "1"))),
    "Day": f(lambda time: _part(time, "2")),
    "Hour": f(lambda time: _part(time, "15")),
    "Minute": f(lambda time: _part(time, "4")),
    "Second": f(lambda time: _part(time, "5")),
    "Nanosecond": f(lambda time: time.nanoseconds),
    "YearDay": f(lambda time: _part(time, "002")),
    "Weekday": f(lambda time: Weekday(((time.seconds + time.offset()[0]) // 86_400 + 4) % 7)),
    "Unix": f(lambda time: Int64(time.seconds)),
    "UnixMilli": f(lambda time: Int64(time.seconds * 1000 + time.nanoseconds // 10**6)),
    "UnixMicro": f(lambda time: Int64(time.seconds * 10**6 + time.nanoseconds // 1000)),
    "UnixNano": f(lambda time: Int64(time.seconds * NANOSECONDS + time.nanoseconds)),
    "Format": f(lambda time, layout: time.format(layout), "string"),
    "String": f(lambda time: time.text()),
    "UTC": f(lambda time: Time(time.seconds, time.nanoseconds, _UTC)),
    "Local": f(lambda time: Time(time.seconds, time.nanoseconds, None)),
    "IsZero": f(lambda time: (time.seconds, time.nanoseconds) == (_YEAR_ONE, 0)),
    "AddDate": f(_add_date, "int", "int", "int"),
    "Add": f(added, "duration"),
    "Sub": f(lambda time, other: Duration(between(time, other)), "time"),
    "After": f(lambda time, other: _instant(time) > _instant(other), "time"),
    "Before": f(lambda time, other: _instant(time) < _instant(other), "time"),
    "Equal": f(lambda time, other: _instant(time) == _instant(other), "time"),
}
