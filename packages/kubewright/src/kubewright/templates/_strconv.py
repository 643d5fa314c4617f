"""Numbers and quoted strings as Go's strconv reads and writes them.

Bytes that are not UTF-8 are surrogates in Python's strings, as `os.fsdecode` makes them.
"""

from __future__ import annotations

import math
import re
import string
from typing import Final

MAX_INT, MIN_INT, MAX_UINT = 2**63 - 1, -(2**63), 2**64 - 1
_BASES: Final = {"x": 16, "o": 8, "b": 2}
_DIGITS: Final = {
    2: frozenset("01"),
    8: frozenset(string.octdigits),
    10: frozenset(string.digits),
    16: frozenset(string.hexdigits),
}
_UNDERSCORES: Final = re.compile(r"(0[xXoObB])?_?[0-9a-fA-F]+(_[0-9a-fA-F]+)*")
_DECIMAL: Final = re.compile(
    r"[+-]?([0-9]+(_[0-9]+)*(\.([0-9]+(_[0-9]+)*)?)?|\.[0-9]+(_[0-9]+)*)([eE][+-]?[0-9]+(_[0-9]+)*)?"
)
_HEX: Final = re.compile(r"[+-]?0[xX]_?[0-9a-fA-F_]*(\.[0-9a-fA-F_]*)?[pP][+-]?[0-9]+")
_SPECIAL: Final = re.compile(r"[+-]?(inf|infinity)|nan", re.IGNORECASE)
_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\",
}  # fmt: skip
_SHORT: Final = {value: f"\\{key}" for key, value in _ESCAPES.items()}
_HEX_LENGTHS: Final = {"x": 2, "u": 4, "U": 8}


def encoded(text: str) -> bytes:
    """Return the bytes of a string."""
    return text.encode("utf-8", "surrogateescape")


def decoded(data: bytes) -> str:
    """Return the string of bytes."""
    return data.decode("utf-8", "surrogateescape")


def valid(text: str) -> str:
    """Return a string with U+FFFD in place of each byte that is not UTF-8."""
    if text.isascii():
        return text
    return "".join("�" if "\ud800" <= each <= "\udfff" else each for each in text)


def parse_uint(text: str, base: int = 0, limit: int = MAX_UINT) -> int | None:
    """Read an unsigned integer. Base 0 takes the base from the prefix. Returns None if the text is not one."""
    digits = text
    if base == 0:
        base = 10
        if text[:1] == "0":
            base = _BASES.get(text[1:2].lower(), 8)
            digits = text[2:] if text[1:2].lower() in _BASES else text
        if "_" in digits:
            if not _UNDERSCORES.fullmatch(text):
                return None
            digits = digits.replace("_", "")
    if not digits or not _DIGITS[base].issuperset(digits) or len(digits.lstrip("0")) > 80:
        return None
    value = int(digits, base)
    return value if value <= limit else None


def parse_int(text: str, base: int = 0) -> int | None:
    """Read a signed integer of 64 bits. Returns None if the text is not one."""
    if text[:1] == "-":
        value = parse_uint(text[1:], base, -MIN_INT)
        return None if value is None else -value
    return parse_uint(text.removeprefix("+"), base, MAX_INT)


def parse_float(text: str) -> float | None:
    """Read a float. Returns None if the text is not one, or is out of range."""
    if _DECIMAL.fullmatch(text):
        value = float(text)
        return None if math.isinf(value) else value
    if _SPECIAL.fullmatch(text):
        return float(text)
    if _HEX.fullmatch(text) and re.search("[0-9a-fA-F]", re.split("[pP]", text)[0].lstrip("+-")[2:]):
        try:
            return float.fromhex(text.replace("_", ""))
        except (ValueError, OverflowError):
            return None
    return None


def _shortest(value: float) -> tuple[str, int]:
    """Return the shortest digits of a positive float, and the position of the decimal point."""
    mantissa, _, exponent = f"{value!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    digits = (whole + fraction).lstrip("0")
    point = len(whole) - (len(whole + fraction) - len(digits)) + int(exponent or 0)
    return digits.rstrip("0") or "0", point if digits else 1


def _rounded(value: float, digits: int) -> tuple[str, int]:
    """Return the first digits of a positive float, and the position of the decimal point."""
    if value == 0:
        return "0", 1
    mantissa, _, exponent = f"{value:.{max(digits, 1) - 1}e}".partition("e")
    return mantissa.replace(".", "").rstrip("0") or "0", int(exponent) + 1


def format_float(value: float, verb: str = "g", precision: int = -1) -> str:
    """Write a float with the verb `b`, `e`, `E`, `f`, `g`, `G`, `x` or `X`. Precision -1 takes the shortest digits."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign = "-" if math.copysign(1, value) < 0 else ""
    return sign + _magnitude(abs(value), verb, precision)


def _magnitude(value: float, verb: str, precision: int) -> str:
    if verb in "gG":
        return _general(value, "e" if verb == "g" else "E", precision)
    if verb in "xX":
        return _hexadecimal(value, verb, precision)
    if verb == "b":
        mantissa, exponent = math.frexp(value)
        return f"{int(mantissa * 2**53)}p{exponent - 53:+d}" if value else "0p-1074"
    if verb == "f":
        if precision >= 0:
            return f"{value:.{precision}f}"
        return _fixed(*_shortest(value))
    if precision >= 0:
        return _exponent_digits(f"{value:.{precision}e}").replace("e", verb)
    return _scientific(*_shortest(value), verb)


def _general(value: float, verb: str, precision: int) -> str:
    if precision == 0:
        precision = 1
    digits, point = _shortest(value) if precision < 0 else _rounded(value, precision)
    threshold = 6 if precision < 0 else precision
    if precision >= 0 and threshold > len(digits) >= point:
        threshold = len(digits)
    if not -4 <= point - 1 < threshold:
        return _scientific(digits, point, verb)
    return _fixed(digits, point)


def _fixed(digits: str, point: int) -> str:
    if point <= 0:
        return "0." + "0" * -point + digits if digits != "0" else "0"
    whole, fraction = digits[:point].ljust(point, "0"), digits[point:]
    return f"{whole}.{fraction}" if fraction else whole


def _scientific(digits: str, point: int, verb: str) -> str:
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}{verb}{point - 1:+03d}"


def _exponent_digits(text: str) -> str:
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent):+03d}"


def _hexadecimal(value: float, verb: str, precision: int) -> str:
    text, exponent = value.hex().split("p")
    whole, _, fraction = text[2:].partition(".")
    if value and whole == "0":  # a denormal number is normalized
        mantissa, power = math.frexp(value)
        whole, _, fraction = (mantissa * 2).hex().split("p")[0][2:].partition(".")
        exponent = str(power - 1)
    power = int(exponent) if value else 0
    digits = int(fraction or "0", 16) | (int(whole) << 4 * len(fraction))
    if 0 <= precision < len(fraction):
        shift = 4 * (len(fraction) - precision)
        half, rest = 1 << (shift - 1), digits & ((1 << shift) - 1)
        digits >>= shift
        if rest > half or (rest == half and digits & 1):
            digits += 1
        if digits >> (4 * precision) >= 2:
            digits >>= 1
            power += 1
        fraction = f"{digits & ((1 << 4 * precision) - 1):0{precision}x}" if precision else ""
        whole = str(digits >> (4 * precision))
    elif precision < 0:
        fraction = fraction.rstrip("0")
    else:
        fraction = fraction.ljust(precision, "0")
    out = f"0x{whole}{'.' if fraction else ''}{fraction}p{power:+03d}"
    return out.upper() if verb == "X" else out


def printable(character: str) -> bool:
    """Return whether Go counts a character as printable."""
    return character.isprintable()


def quote(text: str, mark: str = '"', ascii_only: bool = False) -> str:
    """Write a string as a Go constant in double quotes, or a character in single quotes."""
    if mark == '"' and text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return mark + "".join(_escaped(each, mark, ascii_only) for each in text) + mark


def _escaped(character: str, mark: str, ascii_only: bool) -> str:
    code = ord(character)
    if character in (mark, "\\"):
        return f"\\{character}"
    if 0xD800 <= code <= 0xDFFF:
        return f"\\x{code & 0xFF:02x}"
    if (code < 0x7F if ascii_only else printable(character)) and printable(character):
        return character
    if character in _SHORT:
        return _SHORT[character]
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def unquote(text: str) -> str | None:
    """Read a Go string constant in double quotes or backquotes. Returns None if it is not one."""
    if text[0] == "`":
        return text[1:-1].replace("\r", "")
    body = text[1:-1]
    if "\\" not in body:
        return body
    return _unescaped(body, '"')


def unquote_character(text: str) -> int | None:
    """Read a Go character constant. Returns None if it is not one."""
    body = text[1:-1]
    if body.startswith("\\"):
        for pattern in (r"\\x[0-9a-fA-F]{2}", r"\\[0-7]{3}"):
            if re.fullmatch(pattern, body):
                value = int(body.lstrip("\\x"), 16 if "x" in body else 8) if body.strip("\\x0") else 0
                return value if value < 256 else None
        body = _unescaped(body, "'") or ""
    return ord(body) if len(body) == 1 else None


def _unescaped(body: str, mark: str) -> str | None:
    out = bytearray()
    index = 0
    while index < len(body):
        character = body[index]
        if character != "\\":
            out += encoded(character)
            index += 1
            continue
        piece, length = _escape(body, index + 1, mark)
        if piece is None:
            return None
        out += piece
        index += 1 + length
    return decoded(bytes(out))


def _escape(body: str, index: int, mark: str) -> tuple[bytes | None, int]:
    letter = body[index : index + 1]
    if letter in _ESCAPES:
        return _ESCAPES[letter].encode(), 1
    if letter == mark:
        return letter.encode(), 1
    if letter in _HEX_LENGTHS:
        length = _HEX_LENGTHS[letter]
        digits = body[index + 1 : index + 1 + length]
        if not re.fullmatch(f"[0-9a-fA-F]{{{length}}}", digits):
            return None, 0
        code = int(digits, 16)
        if letter == "x":
            return bytes((code,)), 3
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            return None, 0
        return chr(code).encode(), 1 + length
    if re.fullmatch("[0-7]{3}", digits := body[index : index + 3]) and int(digits, 8) < 256:
        return bytes((int(digits, 8),)), 3
    return None, 0
