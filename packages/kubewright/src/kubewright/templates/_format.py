"""Text of values, as Go's fmt package writes it: print, println and printf with all verbs."""

from __future__ import annotations

from typing import Any, Final

from kubewright.templates._strconv import encoded, format_float, printable, quote
from kubewright.templates._values import (
    INVALID,
    NIL_TYPES,
    NamedInt,
    Object,
    Uint8,
    Uint64,
    reserve,
    spend,
    spend_on,
    type_name,
)

_LARGE: Final = 1_000_000
_FLAGS: Final = {"#": "sharp", "0": "zero", "+": "plus", "-": "minus", " ": "space"}
_BASES: Final = {"b": 2, "o": 8, "O": 8, "d": 10, "x": 16, "X": 16, "v": 10}
_ADDRESS: Final = 0xC000000000


def text_of(value: Any) -> str:
    """Return the text of a value, as the verb %v writes it."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return format_float(value)
    if isinstance(value, list):
        spend(1 + 2 * len(value))
        text = f"[{' '.join(map(text_of, value))}]"
        reserve(len(text))
        return text
    if isinstance(value, dict):
        spend(1 + 2 * len(value))
        text = f"map[{' '.join(f'{key}:{text_of(value[key])}' for key in sorted(value))}]"
        reserve(len(text))
        return text
    if isinstance(value, Object | NamedInt):
        return value.text()
    if isinstance(value, complex):
        return f"({format_float(value.real)}{_signed(format_float(value.imag))}i)"
    if value is None or value is INVALID:
        return "<nil>"
    return str(int(value))


def _signed(number: str) -> str:
    return number if number[0] in "+-" else f"+{number}"


def sprint(values: tuple[Any, ...]) -> str:
    """Return what fmt.Sprint returns: a space between values of which neither is a string."""
    out: list[str] = []
    was_string = True
    for value in values:
        is_string = isinstance(value, str)
        if not is_string and not was_string:
            out.append(" ")
        out.append(text_of(value))
        was_string = is_string
    return "".join(out)


def sprintln(values: tuple[Any, ...]) -> str:
    """Return what fmt.Sprintln returns."""
    return " ".join(map(text_of, values)) + "\n"


def sprintf(format: str, values: tuple[Any, ...]) -> str:
    """Return what fmt.Sprintf returns, with Go's texts for arguments that do not fit."""
    if "%" not in format and not values:
        return format
    return _Printf(format, values).text()


class _Printf:
    """One call of printf."""

    def __init__(self, format: str, values: tuple[Any, ...]) -> None:
        self._format = format
        self._values = values
        self._index = 0
        self._argument = 0
        self._reordered = False
        self._good = True
        self._after_index = False

    def text(self) -> str:
        out: list[str] = []
        format, end = self._format, len(self._format)
        while self._index < end:
            percent = format.find("%", self._index)
            if percent < 0:
                out.append(format[self._index :])
                break
            out.append(format[self._index : percent])
            self._index = percent + 1
            out.append(self._directive())
        if not self._reordered and self._argument < len(self._values):
            extra = ", ".join(
                "<nil>" if each is None else f"{type_name(each)}={text_of(each)}"
                for each in self._values[self._argument :]
            )
            out.append(f"%!(EXTRA {extra})")
        return "".join(out)

    def _directive(self) -> str:
        format, end = self._format, len(self._format)
        self._good, self._after_index = True, False
        printer = Printer()
        while self._index < end and format[self._index] in _FLAGS:
            setattr(printer, _FLAGS[format[self._index]], True)
            self._index += 1
        if self._index < end and "a" <= format[self._index] <= "z" and self._argument < len(self._values):
            return self._print(printer)
        self._number()
        notes = self._width(printer) + self._precision(printer)
        if not self._after_index:
            self._number()
        if self._index >= end:
            return f"{notes}%!(NOVERB)"
        return notes + self._print(printer)

    def _print(self, printer: Printer) -> str:
        verb = self._format[self._index]
        self._index += 1
        if "\ud800" <= verb <= "\udfff":
            verb = "�"
        if verb == "%":
            return "%"
        if not self._good:
            return f"%!{verb}(BADINDEX)"
        if self._argument >= len(self._values):
            return f"%!{verb}(MISSING)"
        value = self._values[self._argument]
        self._argument += 1
        if verb in "vw":
            printer.sharp_v, printer.sharp = printer.sharp, False
            printer.plus_v, printer.plus = printer.plus, False
        if verb == "w" and isinstance(value, list | dict | Object):
            return printer.bad(value, verb)
        return printer.argument(value, verb)

    def _width(self, printer: Printer) -> str:
        if self._format[self._index : self._index + 1] != "*":
            printer.width = self._digits()
            if self._after_index and printer.width is not None:
                self._good = False
            return ""
        self._index += 1
        self._after_index = False
        printer.width = self._star()
        if printer.width is None:
            return "%!(BADWIDTH)"
        if printer.width < 0:
            printer.width = -printer.width
            printer.minus, printer.zero = True, False
        return ""

    def _precision(self, printer: Printer) -> str:
        if self._index + 1 > len(self._format) - 1 or self._format[self._index] != ".":
            return ""
        self._index += 1
        if self._after_index:
            self._good = False
        self._number()
        if self._format[self._index : self._index + 1] != "*":
            printer.precision = self._digits() or 0
            return ""
        self._index += 1
        self._after_index = False
        printer.precision = self._star()
        if printer.precision is not None and printer.precision < 0:
            printer.precision = None
        return "%!(BADPREC)" if printer.precision is None else ""

    def _digits(self) -> int | None:
        """Read a number of the format. One that is too large ends the format."""
        number, start = 0, self._index
        while self._index < len(self._format) and self._format[self._index] in "0123456789":
            if number > _LARGE:
                self._index = len(self._format)
                return None
            number = number * 10 + int(self._format[self._index])
            self._index += 1
        return number if self._index > start else None

    def _star(self) -> int | None:
        """Read a width or precision from the arguments."""
        if self._argument >= len(self._values):
            return None
        value = self._values[self._argument]
        self._argument += 1
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LARGE:
            return None
        return int(value)

    def _number(self) -> None:
        """Read the number of an argument, as in %[2]d."""
        format, start = self._format, self._index
        if format[start : start + 1] != "[":
            self._after_index = False
            return
        self._reordered = True
        close = format.find("]", start) if len(format) - start >= 3 else -1
        if close < 0:
            self._good, self._after_index = False, False
            self._index += 1
            return
        digits = format[start + 1 : close]
        self._index = close + 1
        is_number = digits.isascii() and digits.isdigit() and len(digits) < 8
        if is_number and 0 <= int(digits) - 1 < len(self._values):
            self._argument = int(digits) - 1
            self._after_index = True
        else:
            self._good, self._after_index = False, is_number


class Printer:
    """Flags, width and precision of a verb."""

    sharp = zero = plus = minus = space = sharp_v = plus_v = False
    width: int | None = None
    precision: int | None = None
    _failing = False

    def argument(self, value: Any, verb: str) -> str:
        """Return the text of an argument."""
        if value is None or value is INVALID:
            return self._pad("<nil>") if verb in "Tv" else f"%!{verb}(<nil>)"
        if verb == "T":
            return self._string_s(type_name(value))
        if verb == "p":
            return self._pointer(value)
        return self._value(value, verb, 0)

    def _value(self, value: Any, verb: str, depth: int) -> str:
        kind = type(value)
        if kind is str:
            return self._string(value, verb)
        if kind is bool:
            return self._pad("true" if value else "false") if verb in "tv" else self.bad(value, verb)
        if isinstance(value, Object | NamedInt) and not self._failing and verb in "vsxXq" and not self.sharp_v:
            return self._string(value.text(), verb)
        if isinstance(value, int):
            return self._integer(value, verb)
        if isinstance(value, float):
            return self._float(value, verb, value)
        if isinstance(value, complex):
            return self._complex(value, verb)
        if isinstance(value, list | dict):
            spend(2 + 2 * len(value))
            text = self._list(value, verb, depth) if isinstance(value, list) else self._map(value, verb, depth)
            reserve(len(text))
            return text
        if value is None:
            return "interface {}(nil)" if self.sharp_v else "<nil>"
        return self._pad(value.text())

    def bad(self, value: Any, verb: str) -> str:
        """Return what is printed for a verb that a value does not have."""
        self._failing = True
        text = f"%!{verb}({type_name(value)}={self._value(value, 'v', 0)})"
        self._failing = False
        return text

    def _pointer(self, value: Any) -> str:
        if isinstance(value, list | dict):
            return self._based(0 if type(value) in NIL_TYPES else _ADDRESS, "x", sharp=not self.sharp)
        return self.bad(value, "p")

    # ---- containers

    def _list(self, value: list[Any], verb: str, depth: int) -> str:
        items = [self._value(each, verb, depth + 1) for each in value]
        if not self.sharp_v:
            return f"[{' '.join(items)}]"
        if type(value) in NIL_TYPES:
            return f"{type_name(value)}(nil)"
        return f"{type_name(value)}{{{', '.join(items)}}}"

    def _map(self, value: dict[str, Any], verb: str, depth: int) -> str:
        items = [
            f"{self._value(key, verb, depth + 1)}:{self._value(value[key], verb, depth + 1)}" for key in sorted(value)
        ]
        if not self.sharp_v:
            return f"map[{' '.join(items)}]"
        if type(value) in NIL_TYPES:
            return f"{type_name(value)}(nil)"
        return f"{type_name(value)}{{{', '.join(items)}}}"

    # ---- strings

    def _pad(self, text: str, zero: bool | None = None) -> str:
        if not self.width:
            return text
        reserve(self.width)
        if self.minus:
            return text.ljust(self.width)
        return text.rjust(self.width, "0" if (self.zero if zero is None else zero) else " ")

    def _string_s(self, text: str) -> str:
        return self._pad(text if self.precision is None else text[: self.precision])

    def _string(self, text: str, verb: str) -> str:
        if verb == "s" or (verb == "v" and not self.sharp_v):
            return self._string_s(text)
        if verb in "vq":
            return self._quoted(text if self.precision is None else text[: self.precision])
        if verb in "xX":
            return self._hexadecimal(encoded(text), verb)
        return self.bad(text, verb)

    def _quoted(self, text: str) -> str:
        reserve(len(text))
        spend_on(text)
        if self.sharp and "`" not in text and all(map(_can_backquote, text)):
            return self._pad(f"`{text}`")
        return self._pad(quote(text, ascii_only=self.plus))

    def _hexadecimal(self, data: bytes, verb: str) -> str:
        if self.precision is not None:
            data = data[: self.precision]
        reserve(5 * len(data))
        prefix = f"0{verb}" if self.sharp and data else ""
        text = " ".join(f"{prefix}{each:02x}" for each in data) if self.space else prefix + data.hex()
        text = text if verb == "x" else text.upper()
        return self._pad(text)

    # ---- numbers

    def _integer(self, value: int, verb: str) -> str:
        if verb == "v" and self.sharp_v and isinstance(value, Uint8 | Uint64):
            return self._based(value, "x", sharp=True)
        if verb in _BASES:
            return self._based(value, verb, self.sharp)
        if verb in "cq":
            return self._character(value, verb)
        if verb == "U":
            return self._unicode(value % 2**64)
        return self.bad(value, verb)

    def _based(self, value: int, verb: str, sharp: bool) -> str:
        base, magnitude = _BASES[verb], abs(int(value))
        precision = self.precision or 0
        if self.precision == 0 and value == 0:
            return " " * (self.width or 0)
        sign = "-" if value < 0 else "+" if self.plus else " " if self.space else ""
        if self.precision is None and self.zero and not self.minus and self.width:
            precision = self.width - bool(sign)
        reserve(precision)
        digits = f"{magnitude:{'b' if base == 2 else 'o' if base == 8 else 'x' if base == 16 else 'd'}}"
        if verb == "X":
            digits = digits.upper()
        digits = digits.rjust(precision, "0")
        if sharp and base == 16:
            digits = f"0{verb if verb in 'xX' else 'x'}{digits}"
        elif sharp and base == 8 and digits[0] != "0":
            digits = f"0{digits}"
        elif sharp and base == 2:
            digits = f"0b{digits}"
        if verb == "O":
            digits = f"0o{digits}"
        return self._pad(sign + digits, zero=False)

    def _character(self, value: int, verb: str) -> str:
        code = value if 0 <= value <= 0x10FFFF and not 0xD800 <= value <= 0xDFFF else 0xFFFD
        if verb == "c":
            return self._pad(chr(code))
        return self._pad(quote(chr(code), "'", self.plus))

    def _unicode(self, value: int) -> str:
        digits = f"{value:X}".rjust(max(4, self.precision or 0), "0")
        shown = self.sharp and value <= 0x10FFFF and not 0xD800 <= value <= 0xDFFF and printable(chr(value))
        return self._pad(f"U+{digits} '{chr(value)}'" if shown else f"U+{digits}", zero=False)

    def _float(self, value: float, verb: str, shown: Any) -> str:
        if verb not in "vbgGxXfFeE":
            return self.bad(shown, verb)
        precision = -1 if verb in "vbgGxX" else 6
        if self.precision is not None:
            precision = self.precision
        reserve(precision)
        number = format_float(value, {"v": "g", "F": "f"}.get(verb, verb), precision)
        sign, digits = (number[0], number[1:]) if number[0] in "+-" else ("+", number)
        if self.space and sign == "+" and not self.plus:
            sign = " "
        if digits in ("Inf", "NaN"):
            if digits == "NaN" and not self.space and not self.plus:
                sign = ""
            return self._pad(digits if sign == "+" and not self.plus else sign + digits, zero=False)
        if self.sharp and verb != "b":
            digits = _with_point(digits, verb, precision)
        if not self.plus and sign == "+":
            return self._pad(digits)
        if self.zero and not self.minus and self.width and self.width > len(digits) + 1:
            reserve(self.width)
            return sign + digits.rjust(self.width - 1, "0")
        return self._pad(sign + digits)

    def _complex(self, value: complex, verb: str) -> str:
        if verb not in "vbgGxXfFeE":
            return self.bad(value, verb)
        real, plus = self._float(value.real, verb, value), self.plus
        self.plus = True
        imaginary = self._float(value.imag, verb, value)
        self.plus = plus
        return f"({real}{imaginary}i)"


def _can_backquote(character: str) -> bool:
    return character == "\t" or (character >= " " and character not in "\x7f\ufeff" and not _is_surrogate(character))


def _is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


def _with_point(number: str, verb: str, precision: int) -> str:
    """Return a float with a decimal point and trailing zeros, as the flag # asks for."""
    missing = (6 if precision < 0 else precision) if verb in "vgGx" else 0
    tail = ""
    for mark in "pP" if verb in "xX" else "pPeE":
        if mark in number:
            position = number.index(mark)
            number, tail = number[:position], number[position:]
    significant = number.replace(".", "").lstrip("0") if verb not in "xX" else number.replace(".", "")[1:].lstrip("0")
    missing -= len(significant)
    if "." not in number:
        missing -= number == "0"
        number += "."
    return number + "0" * max(missing, 0) + tail
