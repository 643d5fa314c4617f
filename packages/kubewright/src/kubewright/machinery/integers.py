"""Integers and flags in queries and options, as Go parses them, with the errors of its strconv."""

from __future__ import annotations

import re

_INTEGER = re.compile(r"[-+]?[0-9]+")
_DIGITS = 20


def parse_int(text: str) -> int:
    """Parse an integer of 64 bits. Raises ValueError in the words of `strconv.ParseInt`."""
    return _parsed(text, "ParseInt", -(2**63), 2**63 - 1)


def parse_uint(text: str) -> int:
    """Parse an integer of 64 bits without a sign. Raises ValueError in the words of `strconv.ParseUint`."""
    return _parsed(text, "ParseUint", 0, 2**64 - 1)


def parse_flag(text: str) -> bool:
    """Parse a flag of a query that is present: anything is true except `0` and, in any case, `false`."""
    return text != "0" and text.lower() != "false"


def _parsed(text: str, function: str, least: int, most: int) -> int:
    if not _INTEGER.fullmatch(text) or (least == 0 and text[0] in "+-"):
        raise ValueError(f'strconv.{function}: parsing "{text}": invalid syntax')
    digits = text.lstrip("+-").lstrip("0")
    value = int(digits or "0") * (-1 if text[0] == "-" else 1) if len(digits) <= _DIGITS else most + 1
    if not least <= value <= most:
        raise ValueError(f'strconv.{function}: parsing "{text}": value out of range')
    return value
