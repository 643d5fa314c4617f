"""Quantities: exact numbers with a suffix (`100m`, `1.5Gi`, `12e6`), as resources are measured.

A `Quantity` compares and adds by its amount, whatever the suffix, and prints in the canonical form in which the API
server writes it back: no fraction, the largest suffix that loses nothing, in the same family of suffixes as it was
read. Amounts are exact to a billionth; smaller amounts are rounded away from zero.

Follows k8s.io/apimachinery/pkg/api/resource.
"""

from __future__ import annotations

import re
from functools import total_ordering
from typing import Final, Literal, TypeAlias

Format: TypeAlias = Literal["DecimalSI", "BinarySI", "DecimalExponent"]
"""A family of suffixes: `500m`, `2k`; `1Gi`; `1e3`."""

_PATTERN: Final = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([eEinumkKMGTP]*[-+]?\d*)", re.ASCII)
_EXPONENT: Final = re.compile(r"[eE]([-+]?\d{1,9})", re.ASCII)
_EXPONENT_LIMIT: Final = 1000  # this limit is ours: an exponent of a billion would be a number of a gigabyte
_NANO: Final = 10**9
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIXES: Final = ("", *_BINARY)
_MOST_DIGITS: Final = 4096
"""Python needs quadratic time to read more."""
_BINARY_LIMIT: Final = (2**63 - 1) * _NANO


@total_ordering
class Quantity:
    """An exact amount and the family of suffixes that it is written in. Immutable; hashed and compared by amount."""

    __slots__ = ("_format", "_nano")

    def __init__(self, nano: int, format: Format = "DecimalSI") -> None:
        self._nano = nano
        self._format: Format = format

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read a quantity. Raises ValueError with the API server's text for an invalid one."""
        found = _PATTERN.fullmatch(text)
        if found is None or not text:
            raise ValueError(
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            )
        sign, whole, fraction, suffix = found.groups()
        digits = whole + (fraction or "")
        if len(digits) > _MOST_DIGITS:
            raise ValueError(f"a quantity must have at most {_MOST_DIGITS} digits, got {len(digits)}")
        scale = len(fraction or "")
        mantissa = int(digits or "0")
        if suffix in _BINARY:
            nano = min(_scaled(mantissa << _BINARY[suffix], 9 - scale), _BINARY_LIMIT)
            format: Format = "DecimalSI" if 0 < nano < _NANO else "BinarySI"
        else:
            format, exponent = _decimal_suffix(suffix)
            nano = _scaled(mantissa, 9 - scale + exponent)
        return cls(-nano if sign == "-" else nano, format)

    @classmethod
    def of(cls, value: object) -> Quantity:
        """Read a quantity from JSON: text or a number. Raises ValueError for anything else."""
        if isinstance(value, str):
            return cls.parse(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return cls.parse(str(value))
        raise ValueError(f"a quantity is a string or a number, not {value!r}")

    @classmethod
    def from_int(cls, value: int, format: Format = "DecimalSI") -> Quantity:
        """Return the amount `value`, written with the suffixes of `format`."""
        return cls(value * _NANO, format)

    @property
    def format(self) -> Format:
        """The family of suffixes that it is written in."""
        return self._format

    @property
    def value(self) -> int:
        """The amount as a whole number, rounded away from zero."""
        return _divide_up(self._nano, _NANO)

    @property
    def milli_value(self) -> int:
        """The amount in thousandths, rounded away from zero."""
        return _divide_up(self._nano, 10**6)

    def is_integer(self) -> bool:
        """Return whether it is a whole number."""
        return self._nano % _NANO == 0

    def __float__(self) -> float:
        return self._nano / _NANO

    def __bool__(self) -> bool:
        return self._nano != 0

    def __eq__(self, other: object) -> bool:
        return self._nano == other._nano if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self._nano < other._nano

    def __hash__(self) -> int:
        return hash(self._nano)

    def __neg__(self) -> Quantity:
        return Quantity(-self._nano, self._format)

    def __add__(self, other: Quantity) -> Quantity:
        """Return the sum, written like the left operand, or like the right one if the left is zero."""
        return Quantity(self._nano + other._nano, self._format if self._nano else other._format)

    def __sub__(self, other: Quantity) -> Quantity:
        return self + -other

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __str__(self) -> str:
        """The canonical form."""
        nano = self._nano
        if nano == 0:
            return "0"
        # Below 1024 and with a fraction, every binary suffix loses precision.
        if self._format == "BinarySI" and abs(nano) >= 1024 * _NANO and nano % _NANO == 0:
            return _binary_text(nano // _NANO)
        return _decimal_text(nano, -9, exponent_form=self._format == "DecimalExponent")


def _decimal_suffix(suffix: str) -> tuple[Format, int]:
    if suffix in _DECIMAL:
        return "DecimalSI", _DECIMAL[suffix]
    found = _EXPONENT.fullmatch(suffix)
    if found is not None and abs(int(found[1])) <= _EXPONENT_LIMIT:
        return "DecimalExponent", int(found[1])
    raise ValueError("unable to parse quantity's suffix")


def _scaled(mantissa: int, exponent: int) -> int:
    """Return `mantissa` times ten to the `exponent`, rounded away from zero: a small request must not become zero."""
    if exponent >= 0:
        return mantissa * int(10**exponent)
    return _divide_up(mantissa, int(10**-exponent))


def _divide_up(value: int, divisor: int) -> int:
    quotient = -(-abs(value) // divisor)
    return -quotient if value < 0 else quotient


def _binary_text(value: int) -> str:
    power = 0
    while value % 1024 == 0 and power < len(_BINARY):
        value //= 1024
        power += 1
    return f"{value}{_BINARY_SUFFIXES[power]}"


def _decimal_text(value: int, exponent: int, *, exponent_form: bool) -> str:
    while value % 1000 == 0 and (exponent_form or exponent < 18):
        value //= 1000
        exponent += 3
    suffix = (f"e{exponent}" if exponent else "") if exponent_form else _DECIMAL_SUFFIX[exponent]
    return f"{value}{suffix}"
