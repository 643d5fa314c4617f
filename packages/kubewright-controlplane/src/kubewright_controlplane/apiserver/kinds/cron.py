"""Schedules of CronJobs: whether one can be read. Follows the standard parser of github.com/robfig/cron."""

from __future__ import annotations

import re
from typing import Final

from kubewright.machinery import time

_DESCRIPTORS: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_MONTHS: Final = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: Final[tuple[tuple[int, int, list[str]], ...]] = (
    (0, 59, []),
    (0, 23, []),
    (1, 31, []),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_RANGE: Final = re.compile(r"(\*|\?|\w+)(?:-(\w+))?(?:/(\d+))?")


def schedule_fault(schedule: str) -> str:
    """What is wrong with a schedule; empty when nothing is."""
    if schedule.startswith("@every "):
        try:
            time.parse_duration(schedule.removeprefix("@every "))
        except ValueError as error:
            return f"failed to parse duration {schedule}: {error}"
        return ""
    if schedule.startswith("@"):
        return "" if schedule in _DESCRIPTORS else f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        shown = " ".join(fields)
        return f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{shown}]"
    for text, (low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in text.split(","):
            fault = _part_fault(part, low, high, names)
            if fault:
                return fault
    return ""


def _part_fault(part: str, low: int, high: int, names: list[str]) -> str:
    found = _RANGE.fullmatch(part)
    if found is None:
        return f"failed to parse int from {part}"
    first, last, step = found.groups()
    if step == "0":
        return f"step of range should be a positive number: {part}"
    if first in ("*", "?"):
        return "" if last is None else f"failed to parse int from {part}"
    numbers = [_number(each, names, low) for each in (first, last) if each is not None]
    if None in numbers:
        return f"failed to parse int from {part}"
    start, end = numbers[0] or 0, numbers[-1] or 0
    if start < low:
        return f"beginning of range ({start}) below minimum ({low}): {part}"
    if end > high:
        return f"end of range ({end}) above maximum ({high}): {part}"
    return f"beginning of range ({start}) beyond end of range ({end}): {part}" if start > end else ""


def _number(text: str, names: list[str], low: int) -> int | None:
    if text.lower() in names:
        return names.index(text.lower()) + low
    return int(text) if text.isdigit() else None
